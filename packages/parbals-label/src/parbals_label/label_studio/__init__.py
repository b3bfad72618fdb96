"""Label Studio: a client that keeps a project's tasks going, and a model that it can connect."""
