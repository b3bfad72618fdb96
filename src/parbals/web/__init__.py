"""The labelling page: a small server on this machine, above the project and beside the command
line."""
