"""Labelled data in, posterior draws out."""
