"""Recall that the agent does not notice: the proxy answers the model's calls of the recall tool.

The agent makes one request and sees one answer, its turn. Behind it may be several rounds with the provider: one
more for each time the model recalled something. `rounds.py` offers the tool and asks again, and a `Turn`
(`turn.py`, and one file per format) decides what the agent sees of each round.
"""
