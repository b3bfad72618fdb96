"""The labelling page: a small server on this machine, and the page that it shows."""
