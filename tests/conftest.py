"""Fixtures of all tests."""

pytest_plugins = ["tests.harness.broker"]
