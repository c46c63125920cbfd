"""Likelihoods of given texts, which the studies read from a model in this process."""
