"""Honest numbers: what the model expects, what an audit measured, how much has been found."""
