"""The closed form: Gaussian posteriors by expectation propagation or at the mode, in NumPy."""
