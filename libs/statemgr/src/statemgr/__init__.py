"""statemgr."""
