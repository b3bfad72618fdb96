"""What a label is: one of some classes, several of them, a rank or a number."""
