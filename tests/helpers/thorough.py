"""Number of examples that property tests try: few in `scripts/test`, four times as many in `scripts/test-thorough`."""

import os

THOROUGH = bool(os.environ.get("FOCUSCTX_THOROUGH"))


def examples(most: int) -> int:
    """Return `most` in a thorough run, and a quarter of it otherwise."""
    return most if THOROUGH else most // 4
