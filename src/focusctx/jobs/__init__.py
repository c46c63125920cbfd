"""Long commands that can be stopped at any moment and go on: `replay` and `bench` are built on this.

A job is a list of *items*. An *engine* (`engines.py`) does the *work* on each item: in this process, in several, or on
a cluster. The *runner* (`runner.py`) hands items to the engine, tries failed ones again, stops when money or patience
is used up, and gives the *records* that come back to a file in a *folder* (`records.py`). Whatever has a record is not
done again. The runner's *tally* says how far the job is.
"""
