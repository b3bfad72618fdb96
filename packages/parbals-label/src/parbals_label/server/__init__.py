"""The base of every server: connections, rate limits, logs, and the threads of a project."""
