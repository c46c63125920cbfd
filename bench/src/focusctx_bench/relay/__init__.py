"""A model server whose answers are written by readers who work from a shell: live runs where no model can be reached.

`desk.py` decides who reads what, `server.py` speaks HTTP. See docs/live.md.
"""
