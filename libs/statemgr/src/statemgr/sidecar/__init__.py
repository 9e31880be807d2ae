"""The state manager: serves a node's stores to new owners and readers, apart from the stage's process."""
