"""The clerk, the scripted agent of the office: it knows what its messages say, and nothing else.

Nothing here imports the world. `reader.py` takes facts from messages, `mind.py` finds what is missing, `chores.py`
says what each chore needs, `agent.py` makes it a turn.
"""

from .agent import decide

__all__ = ["decide"]
