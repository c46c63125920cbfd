"""Baselines that need a model or a package of their own; those that need neither are in `focusctx.baselines`."""
