"""Embedders that need a model, which `focusctx.baselines.embedders` finds by entry point."""
