"""The benchmarks, one adapter per file; `registry.py` knows them by name."""
