"""The bench: an agent, the benchmarks, every method, and the paper's tables and figures from what was recorded."""
