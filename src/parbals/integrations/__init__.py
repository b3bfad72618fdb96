"""Other tools, each in its own file: nothing here imports another integration or edge."""
