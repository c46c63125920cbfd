"""The proxy: stands between an agent and its provider, compresses what goes up, passes on all else untouched."""
