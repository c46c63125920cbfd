"""Replay recorded runs: compare what each method would have kept of the past with what the future used.

`runs` are read from message logs; `facts` and `evidence` find what their actions needed; a `walk` goes through a run
under a method, a `point` is one compression of the full history; both produce a `record`. `docs/replay.md` defines
every measure.
"""
