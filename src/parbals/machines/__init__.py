"""Machine annotators: programs and endpoints that label items of a project."""
