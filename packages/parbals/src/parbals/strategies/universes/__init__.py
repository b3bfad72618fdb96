"""Universes: hypothetical labellings of the pool, each with a posterior given its labels."""
