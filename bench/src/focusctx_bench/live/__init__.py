"""Measures of live runs, from their records: what an agent did under compression, beside the benchmark's own score."""
