"""The coordinator: who owns which task, how tasks move, and what happens to those of a replica that is gone."""
