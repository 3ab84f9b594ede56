"""Pieces of output, and their order at the end of a cell if they were kept until then."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.per_worker import PerWorker
from disco_magic.phrases import who_has

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(slots=True)
class Item:
    """A piece of kept output: consecutive lines of one channel, one display, or a figure shown at the end.

    Attributes:
        kind: ``"stdout"``, ``"stderr"``, ``"display"`` or ``"picture"``.
        lines: the lines, without newlines.
        publish, data, kwargs: the display call, with its MIME bundle.
    """

    kind: str
    lines: list[str] = field(default_factory=list)
    publish: Callable[..., Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_text(self) -> bool:
        """Whether it consists of lines, not of a display."""
        return self.kind in ("stdout", "stderr")

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for output that reads the same; digits and addresses have to be equal too.

        A display that has a name is equal to no other: each is updated by itself.
        """
        content = tuple((mime, str(self.data[mime])) for mime in sorted(self.data))
        return self.kind, tuple(self.lines), content, display_id(self.kwargs)


Kept = dict[int, list[Item]]
Shown = list[tuple[tuple[int, ...], Item]]


def append_lines(items: list[Item], channel: str, lines: Sequence[str]) -> None:
    """Add lines to kept output; to its last piece if that is of the same channel."""
    if items and items[-1].kind == channel:
        items[-1].lines.extend(lines)
    else:
        items.append(Item(channel, list(lines)))


def display_id(kwargs: Mapping[str, Any]) -> object:
    """The id by which ``publish(data, **kwargs)`` can be updated; None if it cannot."""
    return (kwargs.get("transient") or {}).get("display_id")


# By the name that the worker's code has given, the one that front ends get: also in later cells.
_OWN: Final[PerWorker[dict[str, str]]] = PerWorker(dict)
# What IPython makes up is different on all workers anyway.
_MADE_UP: Final = re.compile(r"[0-9a-f]{32}")


def with_own_id(kwargs: dict[str, Any], *, among_others: bool) -> dict[str, Any]:
    """The options of a worker's display or update, with a name that is the worker's own.

    Several workers may show displays under the same name, ``display_id="progress"``: each updates its own.

    Displays that the worker has not made itself, such as the notebook's, keep their names, so that it can
    update them; and so do those of cells of one worker, which the notebook can update.
    """
    me, said = calling_worker(), display_id(kwargs)
    if me is None or type(said) is not str or _MADE_UP.fullmatch(said):
        return kwargs
    own = _OWN.of(me)
    if not kwargs.get("update"):
        own[said] = f"{said} of worker {me.id} of session {me.session_id}" if among_others else said
    if said not in own:
        return kwargs
    return {**kwargs, "transient": {**kwargs["transient"], "display_id": own[said]}}


def by_worker(kept: Kept) -> Shown:
    """All of worker 0, then all of worker 1, ...: ``--output ordered``, ``--group-outputs engine``."""
    return [((worker,), item) for worker in sorted(kept) for item in kept[worker]]


def by_type(kept: Kept) -> Shown:
    """First stdout of all workers, then stderr, then the displays: ``--group-outputs type``."""
    order = ("stdout", "stderr", "display", "picture")
    return sorted(by_worker(kept), key=lambda shown: order.index(shown[1].kind))


def by_order(kept: Kept) -> Shown:
    """Lines as in `by_type`, then all first displays, all second ones, ...: ``--group-outputs order``."""
    lines = [shown for shown in by_type(kept) if shown[1].is_text]
    displays = ([((worker,), i) for i in kept[worker] if not i.is_text] for worker in sorted(kept))
    rounds = zip_longest(*displays)
    return lines + [shown for turn in rounds for shown in turn if shown is not None]


def by_equality(kept: Kept) -> Shown:
    """Group workers whose whole output is equal, and show it once: ``--output grouped``."""
    groups = who_has((worker, tuple(item.key for item in kept[worker])) for worker in sorted(kept))
    return [(tuple(workers), item) for workers in groups.values() for item in kept[workers[0]]]


ARRANGEMENTS: Final[dict[str, Callable[[Kept], Shown]]] = {
    "ordered": by_worker,
    "engine": by_worker,
    "type": by_type,
    "order": by_order,
    "grouped": by_equality,
}
