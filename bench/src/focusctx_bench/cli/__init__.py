"""Commands that this package adds to `focusctx`."""
