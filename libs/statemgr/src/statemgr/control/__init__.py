"""The control log: the assignment of tasks to owners, and who has ended, released and completed what."""
