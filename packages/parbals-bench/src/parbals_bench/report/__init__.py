"""What the runs say: results computed once, then tables, pictures and one page."""
