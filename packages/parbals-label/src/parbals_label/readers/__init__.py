"""Users' files: every format comes in as columns and rows that can be walked more than once."""
