"""Builds the extension where there is a C compiler; without one the package has none, and its users do without."""

from setuptools import setup

setup(cffi_modules=["build_native.py:ffibuilder"])
