"""Label types: one class, several classes, an ordinal class or a number per item."""
