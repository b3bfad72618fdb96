"""What every server we start stands on: connections, pace, logs, and the desk in front of a project."""
