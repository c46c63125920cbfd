"""The proxy between an agent and its provider: compresses histories and forwards everything else unchanged."""
