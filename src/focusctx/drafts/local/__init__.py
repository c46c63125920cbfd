"""A causal language model in this process: loaded, read, continued side by side, and asked for likelihoods."""
