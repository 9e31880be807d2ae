"""Runs all stages of a query as local processes, under supervisord."""

from towpath.launch.pipeline import Pipeline, ProcessState
from towpath.launch.programs import Program, programs_of

__all__ = ["Pipeline", "ProcessState", "Program", "programs_of"]
