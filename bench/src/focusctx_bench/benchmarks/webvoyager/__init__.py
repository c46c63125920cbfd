"""WebVoyager (MinorJerry/WebVoyager), text only: tasks on real websites, in a real browser that shows pages as text.

The answers are judged by a model, in our own words. See docs/bench.md.

    judge=MODEL         who judges; needed
    chromium=PATH       the browser; the system's or Playwright's own unless given
    sandbox=off         Chromium without its sandbox, in containers that forbid it
"""

from .adapter import WebVoyager, benchmark

__all__ = ["WebVoyager", "benchmark"]
