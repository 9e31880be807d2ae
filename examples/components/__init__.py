"""Connected components of a growing graph; see README.md."""
