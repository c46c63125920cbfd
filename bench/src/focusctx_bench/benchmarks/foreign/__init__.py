"""Benchmarks that run in an interpreter of their own: what they need may clash with what we need."""
