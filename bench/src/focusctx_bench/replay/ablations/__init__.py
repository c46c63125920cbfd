"""Ablations on recorded runs: one setting changed at a time, everything else the same."""
