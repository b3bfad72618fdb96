"""The commands, and a small project."""

from message_projects import made_once, messages, project, run

__all__ = ["made_once", "messages", "project", "run"]
