"""What every server we start stands on: connections, pace, logs, and a project's desk."""
