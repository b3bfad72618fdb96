"""The project file: what is written is checked, kept and proved."""
