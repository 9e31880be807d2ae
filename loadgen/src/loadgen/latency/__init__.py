"""The latency job: what a pipeline's users wait for, per second, from committed records only."""

from loadgen.latency.job import LatencyResult, LatencySettings, follow, measure_batch
from loadgen.latency.meter import Frames, load_frames
from loadgen.latency.report import report
from loadgen.receiver import ReceiverProcess

__all__ = [
    "Frames",
    "LatencyResult",
    "LatencySettings",
    "ReceiverProcess",
    "follow",
    "load_frames",
    "measure_batch",
    "report",
]
