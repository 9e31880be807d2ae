"""Tables of faust-streaming applications that move while they are used: ``faust.App(…, store="statemgr://")``.

The store is found by Faust through its entry point for schemes of stores; nothing here needs to be imported, unless to
look at a worker with :func:`report`.
"""

from statemgr.faust.monitor import PartitionReport, Report

__all__ = ["PartitionReport", "Report", "report"]


def report(app: object) -> Report:
    """How the tables of an application are in this worker: migrations, waits, loop delay, memory.

    Raises:
        LookupError: the worker has no table with ``store="statemgr://"``, or has not started yet.
    """
    from statemgr.faust.worker import worker_of  # needs Faust, which a state manager does not

    worker = worker_of(app)
    if not worker.started:
        raise LookupError('no table with store="statemgr://" has started in this worker')
    return worker.report()
