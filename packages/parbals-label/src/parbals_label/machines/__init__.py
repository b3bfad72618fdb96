"""Machine annotators: programs that label items of a project."""
