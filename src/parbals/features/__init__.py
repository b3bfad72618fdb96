"""From tables, texts and images to the features a model takes; everything is fitted on the pool
alone."""
