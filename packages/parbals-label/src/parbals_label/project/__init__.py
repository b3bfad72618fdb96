"""The project folder: what a user brings in, what is kept, and what goes out."""
