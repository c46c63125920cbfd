"""The report: one HTML page that holds everything it shows, and works from a file, offline, without scripts.

Traces are hostile: an observation may be a web page with scripts of its own. Two walls keep it text. All HTML is
made by `markup.tag`, which escapes whatever is not markup already; and the page's own policy lets a browser run
the one script we wrote, by its hash, and load nothing.
"""

from .page import Entry, page

__all__ = ["Entry", "page"]
