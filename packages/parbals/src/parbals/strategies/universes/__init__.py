"""Universes: copies of the posterior, each of which has seen its own labels of a partial batch."""
