"""The state manager's protocol, version 1. Everything but ``statemgr.proto`` is generated from it."""
