"""Closed-form Gaussian posteriors in NumPy: expectation propagation and the posterior mode."""
