"""The paper's tables and figures, from the records of bench runs: collect → choose → tables, figures → document."""
