"""Draws from the posterior by particles and by chains: the wing that needs JAX."""
