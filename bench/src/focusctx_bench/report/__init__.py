"""The paper's tables and figures, from records: collect → choose → tables, figures → Markdown, LaTeX, HTML."""

from .document import Document, document
from .write import write_report

__all__ = ["Document", "document", "write_report"]
