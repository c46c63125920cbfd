"""What the studies ask of a model in this process beyond sketches: how likely it finds given texts."""
