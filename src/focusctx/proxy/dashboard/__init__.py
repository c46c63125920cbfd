"""The dashboard at `/ui`: which conversations go through the proxy, what was left out of them, and why.

Histories are hostile: an observation may be a web page with scripts of its own. Two walls keep it text. The server
gives out data, never markup, and the page makes its elements from text alone; and the policy that comes with every
answer lets a browser run the scripts of this folder and load nothing from elsewhere.
"""

from .routes import add_dashboard

__all__ = ["add_dashboard"]
