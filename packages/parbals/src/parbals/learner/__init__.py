"""The loop: ask for items, tell their labels, report how good the model is."""
