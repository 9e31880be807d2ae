"""The changelog of a stage: what alone can rebuild every task (R22)."""
