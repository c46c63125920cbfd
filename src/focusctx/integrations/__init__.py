"""focusctx in the agent frameworks people already have: one framework per file, translation only.

`plug.py` has what they share. Importing one integration imports its framework and no other.
"""
