"""The log of a service on standard error, one line an event, whichever logger wrote it (see the extra ``serve``).

structlog's loggers and the standard library's come out in one form. Who speaks (query, stage, replica) is on every
line, whatever thread writes it; what it is about (task, epoch, …) is in fields of their own.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from statemgr.log_format import LogFormat, log_format


def configure_logging(**who: str) -> None:
    """Set up structlog and the standard library's logging, with ``who`` on every line.

    Raises:
        ValueError: the environment asks for a format that there is not.
    """
    form = log_format()
    before: list[Processor] = [
        _Who(who),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    after: list[Processor] = [structlog.processors.format_exc_info, _renderer(form)]
    structlog.configure(
        processors=[*before, *after],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*before, structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *after],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)


def _renderer(form: LogFormat) -> Processor:
    if form is LogFormat.JSON:
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)


class _Who:
    """Says who writes a line; what the line itself says of that counts more."""

    def __init__(self, who: dict[str, str]) -> None:
        self._who = who

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**self._who, **event}
