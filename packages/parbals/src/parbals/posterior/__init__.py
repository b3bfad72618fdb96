"""Labelled data in, a posterior out: ``closed`` needs NumPy alone, ``particles`` JAX."""
