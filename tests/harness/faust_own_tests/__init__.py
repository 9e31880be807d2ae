"""Faust's own tests of stores and tables, from its source distribution, with ``store="statemgr://"``."""
