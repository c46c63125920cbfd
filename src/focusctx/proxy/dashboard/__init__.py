"""The dashboard at `/ui`: shows which conversations go through the proxy, what was left out of them, and why.

Histories are hostile: an observation may be a web page with its own scripts. Two measures keep it plain text. The
server sends data, never markup, and the page builds its elements from text alone; and the security policy of every
answer lets a browser run only the scripts of this folder and load nothing from elsewhere.
"""

from .routes import add_dashboard

__all__ = ["add_dashboard"]
