"""The agent's model: one file per kind, and `registry.py` from a name to it."""
