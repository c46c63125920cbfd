"""The parts of benchmarks/proxy.py: what is sent, where it goes, who stands between, and what is read off."""
