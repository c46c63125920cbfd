"""focusctx in the agent frameworks people already have: one framework per file, translation only.

`plug.py` has the convention they share. A history that a framework retells as text is read in a file beside its own.
Importing one integration imports its framework and no other.
"""
