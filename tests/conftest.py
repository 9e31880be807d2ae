"""Fixtures of all tests."""

from hypothesis import settings

pytest_plugins = ["tests.harness.broker"]

settings.register_profile("towpath", deadline=None)
"""How long an example takes says how busy the machine is, and nothing else."""

settings.load_profile("towpath")
