"""Methods to shorten a history, FOCUS among them: one protocol, usable outside the bench."""
