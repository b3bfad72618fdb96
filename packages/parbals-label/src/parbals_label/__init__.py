"""parbals-label: projects in which people and programs label, on a page or with other tools."""

__version__ = "0.1.0"
