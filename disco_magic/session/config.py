"""Presets: which channel, plane and launcher go together, and the sessions made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake
from disco_magic.functions.context import Topology
from disco_magic.launchers.threads import ThreadLauncher
from disco_magic.planes.threads import ThreadPlane
from disco_magic.session.dispatch import MAX_OUTSTANDING
from disco_magic.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.core.interfaces import Launcher, Plane
    from disco_magic.serving import Extras


@dataclass(frozen=True, slots=True)
class Combination:
    """A row of the table: what a kind of session and a data plane are made of.

    Attributes:
        device: where the workers' arrays live.
        plane: makes the data plane for a number of workers.
        launcher: makes the launcher on that plane.
    """

    device: str
    plane: Callable[[int], Plane]
    launcher: Callable[..., Launcher]


# (kind of session, data plane) -> what goes together; of a kind's planes the first is its own choice.
COMBINATIONS: dict[tuple[str, str], Combination] = {
    ("threads", "threads"): Combination("cpu", ThreadPlane, ThreadLauncher),
}


@dataclass(frozen=True, slots=True)
class Preset:
    """A chosen row, and what a front end adds to it.

    Attributes:
        kind: what the workers are.
        plane_name: what carries collectives.
        extras: names a front end adds behind the workers' namespaces.
    """

    kind: str
    plane_name: str
    extras: Extras | None = None

    @property
    def device(self) -> str:
        """Where the workers' arrays live."""
        return COMBINATIONS[self.kind, self.plane_name].device

    def launcher(self, topology: Topology, session_id: int) -> Launcher:
        """A new launcher with a new plane; called again at every restart."""
        row = COMBINATIONS[self.kind, self.plane_name]
        plane = row.plane(topology.num_workers)
        return row.launcher(topology, plane, session_id=session_id, extras=self.extras)


def choose_plane(kind: str, ccl: str = "auto") -> str:
    """The data plane for a kind of session.

    Raises:
        UsageMistake: `kind` is unknown, or cannot have that plane.
    """
    planes = [plane for known, plane in COMBINATIONS if known == kind]
    if not planes:
        kinds = ", ".join(dict.fromkeys(known for known, _ in COMBINATIONS))
        raise UsageMistake(f"kind is {kind!r}, expected one of {kinds}")
    if ccl == "auto":
        return planes[0]
    if ccl not in planes:
        raise UsageMistake(f"ccl is {ccl!r}; sessions of kind {kind} can have auto, {', '.join(planes)}")
    return ccl


class ThreadedSession(Session):
    """A session whose workers are threads of this process.

    Args:
        num_workers: how many.
        num_groups: how many groups of equal size they form.
        ccl: the data plane, ``"auto"`` or ``"threads"``.
        max_outstanding: how many commands a worker may be behind: a call waits then until that worker has
            done everything it was sent. Bounds the memory of a controller that runs ahead.
        timeout: seconds that a wait may take which is given no timeout of its own; None: as long as it takes.
        extras: called with every worker's context, gives names its cells see without import.

    Raises:
        UsageMistake: the numbers are impossible; nothing was started.
    """

    def __init__(
        self,
        num_workers: int,
        num_groups: int = 1,
        *,
        ccl: str = "auto",
        max_outstanding: int = MAX_OUTSTANDING,
        timeout: float | None = None,
        extras: Extras | None = None,
    ) -> None:
        preset = Preset("threads", choose_plane("threads", ccl), extras)
        topology = Topology(num_workers, num_groups)
        super().__init__(topology, preset, max_outstanding=max_outstanding, timeout=timeout)
