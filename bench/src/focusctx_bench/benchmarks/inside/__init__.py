"""Programs that run in the interpreter of a benchmark: what it needs may clash with what we need."""
