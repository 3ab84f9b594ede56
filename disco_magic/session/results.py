"""The results of a cell, per worker: values, text, errors, seconds."""

from __future__ import annotations

import copyreg
from contextlib import suppress
from itertools import chain, filterfalse
from typing import TYPE_CHECKING, Any, Final, NoReturn, SupportsIndex

from disco_magic.core.blame import origin_first
from disco_magic.core.markup import MARK
from disco_magic.errors import CellError, DiscoError, SessionClosed, UsageMistake, is_told
from disco_magic.functions.context import calling_context
from disco_magic.offers import Missing, Offers
from disco_magic.phrases import padded, ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from disco_magic.core.messages import CellDone
    from disco_magic.errors import Failure
    from disco_magic.session.dref import DRef

__tracebackhide__ = is_told

_TEXT: Final = "text/plain"
# How many groups, at most, are compared with the first one that looks the same.
_TOLD: Final = 4
# How many parts, at most, are named in which they may differ.
_NAMED: Final = 3


_LATER: Final = "{name!r} is the result's, which .wait() returns: write .wait().{name}"
_OTHERS: Final = "a handle has no {name!r}: .wait() gives the result, .done() tells whether there is one"
_OF_RESULTS: Final = {
    "errors": "'errors' is the result's; .wait() returns it, or raises an error with it as .result",
    # Attributes of a result that has no errors; and what other libraries' handles have in place of `wait`.
    **dict.fromkeys(
        ("values", "shown", "stdout", "caught", "elapsed", "reference", "groups", "release"), _LATER
    ),
    **dict.fromkeys(("get", "join", "ready", "value"), _OTHERS),
    # What `concurrent.futures.wait` and `as_completed` ask of each future.
    "_condition": (
        "concurrent.futures waits for its own futures only: write [each.wait() for each in handles]; "
        "asyncio.gather(*handles) and asyncio.as_completed(handles) take them, too"
    ),
}


class HasResult:
    """Mixin of handles: asked for attributes that only the result has, they point to `wait`."""


for _name, _said in _OF_RESULTS.items():
    setattr(HasResult, _name, Missing(_name, _said))


class CellResult(Offers):
    """The result of a cell; what `Out[n]` holds.

    The rendered values are kept here. The values themselves stay on the workers, in a register that lives
    as long as this object, until `release` or the end of the session.

    Attributes:
        label: ``Cell In[7]``.
        workers: ids of the workers that ran it.
        shown: worker -> MIME bundle of the last expression, or None if there is nothing to show.
        stdout: worker -> text it wrote (stdout and stderr).
        errors: worker -> `Failure`, for those that failed.
        caught: worker -> the error of a collective, in words, for those that caught it and went on.
        elapsed: worker -> seconds.

    Example:
        >>> result = session.run("10 * worker_id")
        >>> result[2], result.values, result.errors
        (20, [0, 10, 20, 30], {})
    """

    def __init__(
        self, label: str, replies: Mapping[int, CellDone], values: DRef | None, among: int = 1
    ) -> None:
        self.label = label
        self.workers = tuple(sorted(replies))
        self.shown: dict[int, Mapping[str, Any] | None] = {}
        self.errors: dict[int, Failure] = {}
        self.caught: dict[int, str] = {}
        self.elapsed: dict[int, float] = {}
        self.stdout: dict[int, str] = dict.fromkeys(self.workers, "")
        self._digests: dict[int, bytes] = {}
        for worker in self.workers:  # once for all: every cell does this
            reply = replies[worker]
            self.shown[worker], self._digests[worker] = reply.shown, reply.digest
            self.elapsed[worker] = reply.elapsed_s
            if reply.failure is not None:
                self.errors[worker] = reply.failure
            if reply.caught:
                self.caught[worker] = reply.caught
        self._values = values
        self._among = among  # the session's workers; makes all labels equally wide
        self._apart: Mapping[bytes, tuple[int, str]] | None = None

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise UsageMistake(
            f"the result of {self.label} cannot be copied or pickled: its values are on the workers; take "
            "those, with .values or result[worker]"
        )

    get = Missing(
        "get",
        "{kind!r} object has no attribute {name!r}: .values has every worker's value, result[2] that of one",
    )

    def __getitem__(self, worker: int) -> Any:
        """Return a copy of the last expression's value on `worker`.

        Raises:
            UsageMistake: that worker did not run the cell, or the values were released.
            CellError: the cell failed there.
            SessionClosed: the session ended, and the values with it.
        """
        asked = worker
        if type(worker) is int and worker < 0:  # from the end, as in `-w -1` and in sequences
            worker += self._among
        if worker not in self.workers:
            raise UsageMistake(f"{self.label} ran on workers {ranges(self.workers)}, not on {asked!r}")
        if worker in self.errors:
            raise CellError({worker: self.errors[worker]})
        values = self._values
        if values is None:
            raise UsageMistake(f"the values of {self.label} were released; what was shown is still here")
        try:
            return values.get(worker)
        except SessionClosed as closed:
            raise SessionClosed(f"the values of {self.label} went with their session: {closed}") from None

    def __iter__(self) -> Iterator[Any]:
        if self.errors:
            raise CellError(origin_first(self.errors))
        return (self[worker] for worker in self.workers)

    def __len__(self) -> int:
        return len(self.workers)

    @property
    def values(self) -> list[Any]:
        """Copies of the last expression's values, in worker order.

        Raises:
            CellError: the cell failed on a worker; of all on which it did, the origin first.
            UsageMistake, SessionClosed: as for a single value.
        """
        return list(self)

    @property
    def reference(self) -> DRef | None:
        """The register that holds the values; None once they were released."""
        return self._values

    def release(self) -> None:
        """Drop the values, so that the workers can free them; what was shown stays.

        Where ``_`` is such a value, it is unbound: it would keep it until another cell has a value.
        """
        values, self._values = self._values, None
        have = tuple(worker for worker in self.workers if worker not in self.errors)
        if values is not None and have:
            with suppress(SessionClosed):
                values.session.call_packed(_forget_last, values, workers=have)

    def groups(
        self, workers: tuple[int, ...] | None = None
    ) -> list[tuple[tuple[int, ...], Mapping[str, Any]]]:
        """Group workers with equal values: ``(workers, MIME bundle)``, ordered by first worker.

        Equal means in every element and in how they look. Workers that failed are left out; if no worker has
        anything to show, the list is empty.

        Args:
            workers: consider only these.
        """
        chosen = [w for w in self.workers if (workers is None or w in workers) and w not in self.errors]
        if not [w for w in chosen if self.shown[w] is not None]:
            return []
        groups = who_has((worker, self._digests[worker]) for worker in chosen).values()
        return [(tuple(ids), self.shown[ids[0]] or {_TEXT: "None"}) for ids in groups]

    def tell_apart(self) -> None:
        """Find out, for `apart`, why values differ that look the same; called after a wait for the cell."""
        values = self._values
        if self._apart is not None or values is None:
            return
        self._apart = {}  # set first: it is not tried again after a Ctrl-C
        if len(set(self._digests.values())) < 2:
            return
        from disco_magic.values.lookalikes import seen  # imported here: most cells do not need it

        alike = who_has((ids[0], seen(str(shown.get(_TEXT, "")))) for ids, shown in self.groups())
        self._apart = {
            self._digests[worker]: (first, why)
            for text, (first, *others) in alike.items()
            if text
            for worker in others[:_TOLD]
            if (why := self._why_apart(values, first, worker))
        }

    def _why_apart(self, values: DRef, first: int, other: int) -> str:
        """See `told_apart`; "" if the values are gone, or another command may have changed them."""
        from disco_magic.session.apart import told_apart
        from disco_magic.values.lookalikes import hidden_in  # imported here: most cells need neither

        session = values.session
        why = told_apart(session, values, first, other)
        if not why and self.shown[first] == self.shown[other]:
            with suppress(DiscoError):
                hidden = session.examine(values, hidden_in, workers=sorted({first, other}))
                data = [*filterfalse(lambda names: names is None, hidden)]
                why = _not_shown(first, data) if data else ""
        return why if session.ledger.seq == values.seq else ""

    def apart(self, workers: tuple[int, ...] | None = None) -> list[str]:
        """Describe how groups that look alike differ: ``≠ [3] 1 of 2 elements differs from worker 0's, ...``.

        Up to four groups are compared with the first one that looks the same; a line lists all workers whose
        values differ from it in the same way.

        Args:
            workers: only groups of these, if one of them has the value that the others are compared with.
        """
        if not self._apart:
            return []
        groups = self.groups(workers)
        there = {self._digests[ids[0]] for ids, _ in groups}
        told: dict[str, list[int]] = {}
        for ids, _ in groups:
            first, why = self._apart.get(self._digests[ids[0]], (None, ""))
            if first is not None and self._digests[first] in there:
                told.setdefault(why, []).extend(ids)
        return [f"{MARK} {padded(ids, self._among)} {why}" for why, ids in told.items()]

    def caught_by(self) -> dict[str, list[int]]:
        """Map each text in `caught` to the workers that caught it."""
        return who_has(self.caught.items())

    def text(self, workers: tuple[int, ...] | None = None) -> str:
        """Return the values as text, ``[0-3] 36.0`` per group, then `apart`, then the failed workers' errors.

        Values that displayed themselves, leaving nothing to show, have no line.

        Args:
            workers: show the values of these only.
        """
        told = [
            (ids, str(bundle.get(_TEXT, ""))) for ids, bundle in self.groups(workers) if any(bundle.values())
        ]
        failed = [((worker,), failure.summary) for worker, failure in self.errors.items()]
        width = max((len(padded(ids, self._among)) for ids, _ in [*told, *failed]), default=0)

        def lines(rows: Iterable[tuple[tuple[int, ...], str]]) -> list[str]:
            # Indent continuation lines by the prefix, so that an array's rows stay aligned.
            return [
                ranges(ids).ljust(width) + " " + text.replace("\n", "\n" + " " * (width + 1))
                for ids, text in rows
            ]

        shown = [*lines(told), *self.apart(workers), *lines(failed)]
        return "\n".join(shown) or f"<{self.label} on workers {ranges(self.workers)}: no value>"

    def __repr__(self) -> str:
        return self.text()


def _forget_last(value: Any) -> None:
    """Unbind ``_`` on the calling worker if it is this value."""
    me = calling_context()
    if me is not None and me.namespace.get("_", me) is value:
        del me.namespace["_"]


def _not_shown(first: int, hidden: Sequence[list[str]]) -> str:
    """How values differ if nothing was found: perhaps in the parts that no look goes into."""
    names = list(dict.fromkeys(chain.from_iterable(hidden)))
    more = f" or {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    where = f", perhaps in {' or '.join(names[:_NAMED])}{more}, which no look goes into" if names else ""
    return f"differs from worker {first}'s in what is not shown{where}"


def _without_result(error: KeyboardInterrupt) -> tuple[Any, ...]:
    """What a copy is made of, also a pickled one: that of a cell that was stopped goes without its result."""
    kept = {name: value for name, value in vars(error).items() if not isinstance(value, CellResult)}
    return type(error), error.args, kept


# Python's own code would pickle all attributes. Errors of our classes leave it out: see `errors.pickling`.
copyreg.pickle(KeyboardInterrupt, _without_result)
