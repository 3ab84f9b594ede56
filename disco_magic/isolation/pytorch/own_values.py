"""What PyTorch has in a global variable while a ``with`` block lasts, for each worker.

A block notes the value that it finds, and restores that. With several workers the value found may be
another one's, and it is restored for good when that one has left. A worker's values end with its program,
and a stopped cell restores those that it has found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.per_worker import PerProgram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.callers.current import CallingWorker

OWN_VALUES: Final = PerProgram()
"""Name -> the worker's value.

Code that restores one keeps the dictionary in which it has set it. A stop, or the end of a program, puts
another one in its place, so that what a block restores when the garbage collector ends it changes nothing.
Only `stances` looks it up again, because PyTorch's block calls its setter: it leaves out such late calls.
"""


def while_set(own: dict[Any, Any], name: str, value: Any) -> Iterator[None]:
    """The body of a block during which a worker, whose values are `own`, has another one of that name."""
    before = own.get(name)
    try:
        own[name] = value
        yield
    finally:
        own[name] = before


def own_values_now(me: CallingWorker) -> dict[Any, Any]:
    """Return what a worker has set."""
    return dict(OWN_VALUES.of(me))


def restore_own_values(me: CallingWorker, then: dict[Any, Any]) -> None:
    """Restore that: a stop may have struck where a ``with`` block begins or ends."""
    me.belongings[OWN_VALUES] = dict(then)
