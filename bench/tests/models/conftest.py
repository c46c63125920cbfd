"""The server of the drafts' tests, and an environment without keys."""

from drafts.conftest import clean_environment, serve

__all__ = ["clean_environment", "serve"]
