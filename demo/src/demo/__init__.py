"""The main job: a whole pipeline on real parts, checked against a batch computation."""
