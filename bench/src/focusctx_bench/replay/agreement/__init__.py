"""Next-action agreement: what a model does next under the full history, against under a compressed one."""
