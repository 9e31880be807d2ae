"""Fraud: cards that are tried out with small payments, and then charged with a large one; see README.md."""
