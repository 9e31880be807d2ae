"""Fakes that satisfy the same contract suites as the real parts."""
