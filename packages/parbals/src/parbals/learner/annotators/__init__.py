"""Several annotators: a model of their mistakes, aggregated labels and measured error rates."""
