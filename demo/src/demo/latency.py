"""The latency job beside the load, in the same Spark session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import pandas as pd
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from loadgen.errors import JobError
from loadgen.latency import LatencyResult, LatencySettings, follow

READY_TIMEOUT_S = 60.0
FINISH_TIMEOUT_S = 120.0
"""The last micro-batch takes what came during the last trigger; on a busy machine that is seconds."""


class LatencyThread:
    """Follows the sink until told to finish; a context manager that stops the job when the run fails."""

    def __init__(
        self, spark: SparkSession, settings: LatencySettings, on_window: Callable[[pd.DataFrame], None]
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._on_window = on_window
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._result: LatencyResult | None = None
        self._error: Exception | None = None
        self._thread = InheritableThread(target=self._run, name="latency", daemon=True)

    def __enter__(self) -> Self:
        """Start, and wait until the job follows the sink.

        Raises:
            JobError: it ended at once, or is not ready in time.
        """
        self._thread.start()
        if not self._ready.wait(READY_TIMEOUT_S) or self._error is not None:
            raise JobError(f"the latency job did not start: {self._error or 'no sign of life'}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(FINISH_TIMEOUT_S)

    def finish(self) -> LatencyResult:
        """Take in what is left.

        Raises:
            JobError: the job failed, or does not end.
        """
        self._stop.set()
        self._thread.join(FINISH_TIMEOUT_S)
        if self._error is not None:
            raise JobError(f"the latency job failed: {self._error}") from self._error
        if self._result is None:
            raise JobError(f"the latency job did not end within {FINISH_TIMEOUT_S:g} s")
        return self._result

    def _run(self) -> None:
        try:
            self._result = follow(self._spark, self._settings, self._on_window, self._stop, on_ready=self._ready.set)
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits
            self._error = error
            self._ready.set()
