"""From tables, texts and images to a model's features; everything is fitted on the pool alone."""
