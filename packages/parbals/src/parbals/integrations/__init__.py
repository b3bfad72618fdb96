"""Where people keep the tools they have: one file a tool, none of which knows another.

Nothing here is imported by the rest of the package, and each file needs its tool alone.
"""
