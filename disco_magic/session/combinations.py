"""Which data planes and launchers go together, by kind of session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from disco_magic.launchers.threads import ThreadLauncher
from disco_magic.planes.threads import ThreadPlane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.core.interfaces import Launcher, Plane
    from disco_magic.core.topology import Topology


@dataclass(frozen=True, slots=True)
class Combination:
    """A row of the table: how to make the plane and launcher of one kind of session."""

    plane: Callable[[Sequence[Any], Topology], Plane]
    launcher: Callable[..., Launcher]


def _threads(places: Sequence[Any], _: Topology) -> Plane:
    return ThreadPlane(len(places))


def _device(places: Sequence[Any], _: Topology) -> Plane:
    from disco_magic.planes.device import DevicePlane

    return DevicePlane(places)


def _nccl(places: Sequence[Any], topology: Topology) -> Plane:
    from disco_magic.planes.nccl import NcclPlane

    return NcclPlane(places, topology.parts())


# (kind of session, data plane) -> how to make them.
COMBINATIONS: Final[Mapping[tuple[str, str], Combination]] = {
    ("threads", "threads"): Combination(_threads, ThreadLauncher),
    ("threads", "device"): Combination(_device, ThreadLauncher),
    ("threads", "nccl"): Combination(_nccl, ThreadLauncher),
}
