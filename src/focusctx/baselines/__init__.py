"""Methods to shorten a history, FOCUS among them: one per file, one protocol, usable outside the bench."""
