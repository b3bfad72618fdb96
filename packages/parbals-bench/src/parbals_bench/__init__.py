"""parbals-bench: the paper's experiment, its data, its report, and a demonstration."""

__version__ = "0.1.0"
