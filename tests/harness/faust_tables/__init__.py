"""Real Faust workers whose every event is written down: what table state it met, when, and where."""
