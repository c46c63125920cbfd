"""What a replay found: collect → tables, figures → Markdown, CSV, HTML, LaTeX, pictures."""
