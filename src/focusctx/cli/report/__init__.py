"""The report: one HTML page that contains everything it shows, and works from a file, offline, without scripts.

Traces are hostile: an observation may be a web page with its own scripts. Two measures keep it text. All HTML is made
by `markup.tag`, which escapes everything that is not markup already; and the page's own policy lets a browser run only
the one script we wrote, by its hash, and load nothing.
"""

from .page import Entry, page

__all__ = ["Entry", "page"]
