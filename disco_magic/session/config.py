"""Presets: which channel, plane and launcher go together, and the sessions made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake
from disco_magic.functions.context import Topology
from disco_magic.launchers.threads import ThreadLauncher
from disco_magic.planes.threads import ThreadPlane
from disco_magic.session.session import Session

if TYPE_CHECKING:
    from disco_magic.worker import Extras

# kind of session -> data planes it can have, its own choice first
PLANES = {"threads": ("threads",)}


@dataclass(frozen=True, slots=True)
class Preset:
    """A row of the table of what goes together.

    Attributes:
        kind: what the workers are.
        device: where their arrays live.
        plane_name: what carries collectives.
        extras: names a front end adds behind the workers' namespaces.
    """

    kind: str
    device: str
    plane_name: str
    extras: Extras | None = None

    def launcher(self, topology: Topology, session_id: int) -> ThreadLauncher:
        """A new launcher with a new plane; called again at every restart."""
        plane = ThreadPlane(topology.num_workers)
        return ThreadLauncher(topology, plane, session_id=session_id, extras=self.extras)


def choose_plane(kind: str, ccl: str = "auto") -> str:
    """The data plane for a kind of session.

    Raises:
        UsageMistake: `kind` is unknown, or cannot have that plane.
    """
    if kind not in PLANES:
        raise UsageMistake(f"kind is {kind!r}, expected one of {', '.join(PLANES)}")
    if ccl == "auto":
        return PLANES[kind][0]
    if ccl not in PLANES[kind]:
        raise UsageMistake(
            f"ccl is {ccl!r}; sessions of kind {kind} can have auto, {', '.join(PLANES[kind])}"
        )
    return ccl


class ThreadedSession(Session):
    """A session whose workers are threads of this process.

    Args:
        num_workers: how many.
        num_groups: how many groups of equal size they form.
        ccl: the data plane, ``"auto"`` or ``"threads"``.
        extras: called with every worker's context, gives names its cells see without import.

    Raises:
        UsageMistake: the numbers are impossible; nothing was started.
    """

    def __init__(
        self, num_workers: int, num_groups: int = 1, *, ccl: str = "auto", extras: Extras | None = None
    ) -> None:
        plane_name = choose_plane("threads", ccl)
        super().__init__(Topology(num_workers, num_groups), Preset("threads", "cpu", plane_name, extras))
