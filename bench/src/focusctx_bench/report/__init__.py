"""Reports of any kind: a document of tables and figures, written as Markdown, LaTeX, HTML and CSV."""
