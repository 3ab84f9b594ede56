"""Log records say which worker made them: the session's workers need no configuration of their own.

While a session is open, every record, whoever makes it with whichever logger, has the attributes
  * ``disco_worker``: id of the worker that made it, None outside of workers;
  * ``disco_session``: number of its session, None outside of workers.
Formatters and filters may use them; ``logging.Formatter(..., defaults={"disco_worker": "-"})`` also formats
records that are made while no session is open, which have no such attribute.

The *message* of a worker's record begins with ``[2] `` unless a handler on its way tells the worker by
itself: its format names ``disco_worker``, or its stream puts the worker before every line, as in a
``%%disco`` cell. `record.msg` and `record.args` stay as they are, so that what groups records by them still
does.

How: `logging.setLogRecordFactory`, on top of the factory that was there. Nothing runs while nothing is
logged; a record takes 1 us longer, a worker's 4. When the last session ends that factory is put back. One
that somebody else has put on top of ours stays, and so does ours beneath it, where it then does nothing; the
next session finds it there. A factory that makes records of a class of its own gets the attributes only.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.context import calling_worker
from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        """Make a record as the factory below does, and mark it."""
        record = self._below(*args, **kwargs)
        if not self._owners:
            return record
        me = calling_worker()
        if me is None:
            record.__dict__.update(disco_worker=None, disco_session=None)
            return record
        record.__dict__.update(disco_worker=me.id, disco_session=me.session_id)
        told = type(record) is not logging.LogRecord or any(map(_tells_the_worker, _handlers(record.name)))
        if not told:
            record.__class__ = WorkerRecord
        return record

    def add(self, owner: object) -> None:
        """Mark records from now on, until `owner` is taken out again or dropped."""
        with self._lock:
            self._owners.add(owner)
            # Whether we are in the chain of factories is seen on a record; nothing else tells.
            if not hasattr(logging.makeLogRecord({}), "disco_worker"):
                self._below = logging.getLogRecordFactory()
                logging.setLogRecordFactory(self)

    def discard(self, owner: object) -> None:
        """Mark no longer for `owner`; after the last one put the factory back that was there. Idempotent."""
        with self._lock:
            self._owners.discard(owner)
            if not self._owners and logging.getLogRecordFactory() is self:
                logging.setLogRecordFactory(self._below)


_marker: Final = Marker()
mark_records: Final = _marker.add
leave_records: Final = _marker.discard


def _handlers(name: str) -> Iterator[logging.Handler]:
    """The handlers that a record of that logger comes to; Python's last resort if there are none."""
    logger: Any = logging.root.manager.loggerDict.get(name)
    if not isinstance(logger, logging.Logger):
        logger = logging.root
    found = False
    while logger is not None:
        for handler in list(logger.handlers):
            found = True
            yield handler
        logger = logger.parent if logger.propagate else None
    if not found and logging.lastResort is not None:
        yield logging.lastResort


def _tells_the_worker(handler: logging.Handler) -> bool:
    """Whether what this handler writes shows the worker without a label in the message."""
    if "disco_worker" in str(getattr(handler.formatter, "_fmt", "")):
        return True
    return getattr(getattr(handler, "stream", None), "names_worker", False) is True
