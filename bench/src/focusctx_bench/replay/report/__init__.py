"""The report of a replay: lines → tables, figures → document."""
