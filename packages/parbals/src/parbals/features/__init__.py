"""Features from tables and texts; every statistic is fitted on the pool alone."""
