"""Ways to make a history shorter, FOCUS among them: one per file, one protocol, usable outside the bench."""
