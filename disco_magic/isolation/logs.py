"""Log records say which worker made them, without any configuration by the workers.

While a session is open, every record, whichever code makes it with whichever logger, has the attributes
  * ``disco_worker``: id of the worker that made it, None outside of workers;
  * ``disco_session``: number of its session, None outside of workers.
Formatters and filters may use them; ``logging.Formatter(..., defaults={"disco_worker": "-"})`` also formats
records that are made while no session is open, which have no such attribute.

The *message* of a worker's record that handlers of the process get, the notebook's for instance, begins with
``[2] `` unless one of them shows the worker by itself: its format names ``disco_worker``, or its stream puts
the worker before every line, as in a ``%%disco`` cell. `record.msg` and `record.args` stay as they are, so
that code that groups records by them still works. Handlers that a worker has added get its records unchanged,
because readers of a program's log file know how its lines begin. Exceptions are those that write to the
process's own streams where nothing shows the worker.

How: `logging.setLogRecordFactory`, on top of the factory that was there, and `Logger.callHandlers`. Nothing
runs while nothing is logged; a record takes 1 us longer, a worker's 6, and 10 if some handlers get it with a
label and some without. When the last session ends, both are restored. If somebody has put another factory on
top of ours, both stay, and ours then does nothing; the next session finds it there. If a factory makes
records of a class of its own, these get the attributes only.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import SYS
from disco_magic.callers.replaced import Replaced
from disco_magic.isolation.streams import WorkerStream, current_writer, unwrapped
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SHOWN: Final = ("stdout", "stderr", "__stdout__", "__stderr__")


class WorkerRecord(logging.LogRecord):
    """A record whose message names the worker that made it."""

    disco_worker: int | None

    def getMessage(self) -> str:  # noqa: N802 - theirs
        """The message with its arguments, after ``[2] ``; once, even if a queue handler made it before."""
        text = super().getMessage()
        label = f"[{self.disco_worker}] "
        return text if self.disco_worker is None or text.startswith(label) else label + text


class Marker:
    """The record factory of this process while anybody needs it.

    Safe from several threads; an owner that was garbage-collected no longer counts.
    """

    def __init__(self) -> None:
        self._below: Callable[..., logging.LogRecord] = logging.LogRecord
        self._owners: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = new_lock()
        self._handing = Replaced(logging.Logger, "callHandlers", self._hand_over())

    def _hand_over(self) -> Callable[[logging.Logger, logging.LogRecord], None]:
        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            """Call the method below; for some handlers, with a labelled record of the worker."""
            labelled, others = _sorted(logger) if _is_of_caller(record) else ([], [])
            if not labelled:
                self._handing.below(logger, record)
            elif not others:
                self._handing.below(logger, _with_label(record))
            else:
                for handler in labelled:
                    if record.levelno >= handler.level:
                        handler.handle(_with_label(record))
                # By the method below, too: somebody else may have replaced it, and expect records there.
                self._handing.below(_alone(logger, others), record)

        return call_handlers

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        """Make a record as the factory below does, and mark it."""
        record = self._below(*args, **kwargs)
        if self._owners:
            me = calling_worker()
            who = (None, None) if me is None else (me.id, me.session_id)
            record.__dict__.update(disco_worker=who[0], disco_session=who[1])
        return record

    def add(self, owner: object) -> None:
        """Mark records from now on, until `owner` is discarded or garbage-collected."""
        with self._lock:
            self._owners.add(owner)
            # Only a record shows whether we are in the chain of factories.
            if not hasattr(logging.makeLogRecord({}), "disco_worker"):
                self._below = logging.getLogRecordFactory()
                logging.setLogRecordFactory(self)
            self._handing.put()

    def discard(self, owner: object) -> None:
        """Stop marking for `owner`; after the last one restore the factory that was there. Idempotent."""
        with self._lock:
            self._owners.discard(owner)
            if self._owners:
                return
            self._handing.take()
            if logging.getLogRecordFactory() is self:
                logging.setLogRecordFactory(self._below)


_marker: Final = Marker()
mark_records: Final = _marker.add
leave_records: Final = _marker.discard


def _is_of_caller(record: logging.LogRecord) -> bool:
    """Whether a worker has just made it, by our factory; not if it came from elsewhere."""
    return (
        type(record) is logging.LogRecord
        and record.__dict__.get("disco_worker") is not None
        and calling_worker() is not None
    )


def _sorted(logger: logging.Logger) -> tuple[list[logging.Handler], list[logging.Handler]]:
    """Split the handlers that get a worker's record: those that get it with a label, and the others."""
    found = list(_handlers(logger))
    shared = [handler for handler, is_own in found if not is_own]
    own = [handler for handler, is_own in found if is_own]
    passing = [handler for handler in own if _passes_by(handler)]
    kept = [handler for handler in own if handler not in passing]
    if any(map(_tells_the_worker, shared)):
        return passing, shared + kept
    return shared + passing, kept


def _handlers(logger: logging.Logger) -> Iterator[tuple[logging.Handler, bool]]:
    """Yield the handlers that get a record, or Python's last resort, and whether each is the worker's own."""
    each: logging.Logger | None = logger
    found = False
    while each is not None:
        # Not through the attribute, which gives a worker its own: see `own_loggers`.
        of_process = [*vars(each).get("handlers", ()), *vars(logging.root)["handlers"]]
        for handler in list(each.handlers):
            found = True
            yield handler, handler not in of_process
        each = each.parent if each.propagate else None
    if not found and logging.lastResort is not None:
        yield logging.lastResort, False


def _alone(logger: logging.Logger, handlers: list[logging.Handler]) -> logging.Logger:
    """Return a logger of the same name that has those handlers and no others."""
    made = logging.Logger(logger.name)  # noqa: LOG001 - must not be found by its name
    vars(made).update(handlers=handlers, propagate=False, manager=logger.manager)
    return made


def _with_label(record: logging.LogRecord) -> WorkerRecord:
    """Return the same record, with shared attributes, for handlers that get it with a label."""
    made = WorkerRecord.__new__(WorkerRecord)
    made.__dict__ = record.__dict__
    return made


def _tells_the_worker(handler: logging.Handler) -> bool:
    """Whether the output of this handler shows the worker without a label in the message."""
    if "disco_worker" in str(getattr(handler.formatter, "_fmt", "")):
        return True
    return getattr(getattr(handler, "stream", None), "names_worker", False) is True


def _passes_by(handler: logging.Handler) -> bool:
    """Whether a worker's own handler shows the user lines in which nothing names the worker.

    That is so outside of cells, and for output to the process's streams themselves.
    """
    stream = getattr(handler, "stream", None)
    if stream is None or _tells_the_worker(handler):
        return False
    if isinstance(stream, WorkerStream):
        return current_writer.get() is None
    return any(stream is unwrapped(SYS.get(name)) for name in _SHOWN)
