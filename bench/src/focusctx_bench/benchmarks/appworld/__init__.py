"""AppWorld (PyPI `appworld`): an agent does errands in a world of everyday apps by writing code that calls their APIs.
AppWorld's own engine runs the code and its own evaluator judges, in the user's interpreter.

    python=PATH     an interpreter with AppWorld; ROOT/.venv/bin/python unless given
"""

from .adapter import AppWorld, benchmark

__all__ = ["AppWorld", "benchmark"]
