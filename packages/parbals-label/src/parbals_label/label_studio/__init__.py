"""Label Studio: a client that keeps a project's tasks going."""
