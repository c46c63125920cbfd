"""Replay recorded runs: what each method would have left of the past, compared with what the future used.

`runs` are read from message logs; `facts` says what their actions needed; a `walk` goes through one run under a method
and ends in a `record`, or through all runs, as a `job`. `docs/replay.md` defines every measure.
"""
