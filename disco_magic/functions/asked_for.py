"""What a worker has asked for with `irecv` and not waited for: a reason why messages are not received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.callers.sites import site_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.core.seat import Spot

_MOST: Final = 3


class _Asked(NamedTuple):
    """A receive: where it was asked for, and from whom; None: from any worker."""

    spot: Spot
    source: int | None
    tag: int | str

    def __str__(self) -> str:
        who = "any worker" if self.source is None else f"worker {self.source}"
        return f"from {who} with tag {self.tag!r} (irecv at {site_of(self.spot)})"


class AskedFor:
    """The receives that one worker has asked for in its command, until something waits for them.

    The worker's own thread writes. Others read, when a message comes too late: `told` copies the dictionary,
    which is atomic in CPython.
    """

    def __init__(self) -> None:
        self._of: tuple[int, dict[object, _Asked]] = (-1, {})

    def add(self, work: object, spot: Spot, source: int | None, tag: int | str, command: int) -> None:
        """Keep where a receive is asked for, until `drop` is called with its handle `work`."""
        if self._of[0] != command:
            self._of = command, {}
        self._of[1][work] = _Asked(spot, source, tag)

    def drop(self, work: object) -> None:
        """Forget it: something waits for it."""
        self._of[1].pop(work, None)

    def told(self, command: int, has_come: Callable[[int | None, int | str], bool]) -> str:
        """Say why the command has not received a message, if what it asked for explains it; else ""."""
        at, asked = self._of
        left = [] if at != command else list(asked.copy().values())
        sites = list(dict.fromkeys(str(site_of(each.spot)) for each in left if has_come(*each[1:])))
        if sites:
            more = " and elsewhere" if len(sites) > 1 else ""
            where = f"irecv at {sites[0]}{more}"
            return f" - {where} asked for a message, and nothing waited for it: call its wait()"
        others = list(dict.fromkeys(map(str, left)))
        if not others:
            return ""
        more = f" and {len(others) - _MOST:,} more" if len(others) > _MOST else ""
        return f" - it still asked for one {', one '.join(others[:_MOST])}{more}"
