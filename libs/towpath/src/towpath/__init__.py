"""towpath."""
