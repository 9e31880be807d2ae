"""A Faust application whose tables move while they are used."""
