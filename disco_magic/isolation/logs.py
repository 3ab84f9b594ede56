"""Log records say which worker made them: the session's workers need no configuration of their own.

While a session is open, every record, whoever makes it with whichever logger, has the attributes
  * ``disco_worker``: id of the worker that made it, None outside of workers;
  * ``disco_session``: number of its session, None outside of workers.
Formatters and filters may use them; ``logging.Formatter(..., defaults={"disco_worker": "-"})`` also formats
records that are made while no session is open, which have no such attribute.

The *message* that handlers of the process get of a worker's record, those of the notebook for one, begins
with ``[2] `` unless one of them tells the worker by itself: its format names ``disco_worker``, or its stream
puts the worker before every line, as in a ``%%disco`` cell. `record.msg` and `record.args` stay as they are,
so that what groups records by them still does. Handlers that a worker has added get its records as they were
logged, for who reads the log file of a program knows how its lines begin; but for those that write to the
process's own streams where nobody says which worker it was.

How: `logging.setLogRecordFactory`, on top of the factory that was there, and `Logger.callHandlers`. Nothing
runs while nothing is logged; a record takes 1 us longer, a worker's 6, and 10 if some handlers get it with a
label and some without. When the last session ends both are put back. A factory that somebody else has put on
top of ours stays, and so does ours beneath it, where it then does nothing; the next session finds it there. A
factory that makes records of a class of its own gets the attributes only.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import SYS
from disco_magic.callers.replaced import Replaced
from disco_magic.isolation.streams import WorkerStream, current_writer, unwrapped
from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SHOWN: Final = ("stdout", "stderr", "__stdout__", "__stderr__")


class WorkerRecord(logging.LogRecord):
    """A record whose message names the worker that made it."""

    disco_worker: int | None

    def getMessage(self) -> str:  # noqa: N802 - theirs
        """The message with its arguments, behind ``[2] ``; once, also if a queue handler made it before."""
        text = super().getMessage()
        label = f"[{self.disco_worker}] "
        return text if self.disco_worker is None or text.startswith(label) else label + text


class Marker:
    """The record factory of this process as long as anybody needs it.

    Safe from several threads; whoever is dropped without a word no longer counts.
    """

    def __init__(self) -> None:
        self._below: Callable[..., logging.LogRecord] = logging.LogRecord
        self._owners: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = new_lock()
        self._handing = Replaced(logging.Logger, "callHandlers", self._hand_over())

    def _hand_over(self) -> Callable[[logging.Logger, logging.LogRecord], None]:
        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            """As the method below, which some get the record of a worker from with a label."""
            labelled, others = _sorted(logger) if _is_of_caller(record) else ([], [])
            if not labelled:
                self._handing.below(logger, record)
            elif not others:
                self._handing.below(logger, _with_label(record))
            else:
                for handler in labelled:
                    if record.levelno >= handler.level:
                        handler.handle(_with_label(record))
                # By what is below, too: somebody else may have replaced it, and wait for records there.
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
        """Mark records from now on, until `owner` is taken out again or dropped."""
        with self._lock:
            self._owners.add(owner)
            # Whether we are in the chain of factories is seen on a record; nothing else tells.
            if not hasattr(logging.makeLogRecord({}), "disco_worker"):
                self._below = logging.getLogRecordFactory()
                logging.setLogRecordFactory(self)
            self._handing.put()

    def discard(self, owner: object) -> None:
        """Mark no longer for `owner`; after the last one put the factory back that was there. Idempotent."""
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
    """Whether a worker has made it just now, by our factory; not one that came from elsewhere."""
    return (
        type(record) is logging.LogRecord
        and record.__dict__.get("disco_worker") is not None
        and calling_worker() is not None
    )


def _sorted(logger: logging.Logger) -> tuple[list[logging.Handler], list[logging.Handler]]:
    """The handlers that a worker's record comes to: those that get it with a label, and the others."""
    found = list(_handlers(logger))
    shared = [handler for handler, is_own in found if not is_own]
    own = [handler for handler, is_own in found if is_own]
    passing = [handler for handler in own if _passes_by(handler)]
    kept = [handler for handler in own if handler not in passing]
    if any(map(_tells_the_worker, shared)):
        return passing, shared + kept
    return shared + passing, kept


def _handlers(logger: logging.Logger) -> Iterator[tuple[logging.Handler, bool]]:
    """The handlers that a record comes to, Python's last resort if there are none; is it the worker's own?"""
    each: logging.Logger | None = logger
    found = False
    while each is not None:
        # Past the attribute, which gives a worker its own: see `own_loggers`.
        of_process = [*vars(each).get("handlers", ()), *vars(logging.root)["handlers"]]
        for handler in list(each.handlers):
            found = True
            yield handler, handler not in of_process
        each = each.parent if each.propagate else None
    if not found and logging.lastResort is not None:
        yield logging.lastResort, False


def _alone(logger: logging.Logger, handlers: list[logging.Handler]) -> logging.Logger:
    """A logger of the same name that has those handlers and no others."""
    made = logging.Logger(logger.name)  # noqa: LOG001 - nobody else is to find it
    vars(made).update(handlers=handlers, propagate=False, manager=logger.manager)
    return made


def _with_label(record: logging.LogRecord) -> WorkerRecord:
    """The same record, whose attributes are in common, for those who get it with a label."""
    made = WorkerRecord.__new__(WorkerRecord)
    made.__dict__ = record.__dict__
    return made


def _tells_the_worker(handler: logging.Handler) -> bool:
    """Whether what this handler writes shows the worker without a label in the message."""
    if "disco_worker" in str(getattr(handler.formatter, "_fmt", "")):
        return True
    return getattr(getattr(handler, "stream", None), "names_worker", False) is True


def _passes_by(handler: logging.Handler) -> bool:
    """Whether a worker's own handler shows to the user what nobody puts the worker before.

    That is so outside of cells, and of what is written to the process's streams themselves.
    """
    stream = getattr(handler, "stream", None)
    if stream is None or _tells_the_worker(handler):
        return False
    if isinstance(stream, WorkerStream):
        return current_writer.get() is None
    return any(stream is unwrapped(SYS.get(name)) for name in _SHOWN)
