"""Replaying recorded runs: what each method would have left of the past, held against what the future used.

`runs` are read from message logs; `facts` and `evidence` say what their actions needed; a `walk` goes through one
under a method, a `point` is one compression over the full history; both end in a `record`. `docs/replay.md` defines
every measure.
"""
