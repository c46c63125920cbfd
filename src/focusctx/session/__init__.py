"""Sessions: decisions that last, a prefix that does not move, and nothing lost. Made by `Focus.session`."""
