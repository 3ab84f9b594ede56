"""How many workers there are, and which of them work together: groups of neighbours, and axes of a mesh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disco_magic.core.mesh import NO_MESH, Mesh
from disco_magic.core.numbers import whole_number
from disco_magic.core.words import plural
from disco_magic.errors import UsageMistake
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    Members = tuple[int, ...]
    # Who works together: the workers along an axis of the mesh, or several; on workers also ids.
    Axes = str | Sequence[str]
    Over = Axes | Sequence[int]

_EXPECTED = "expected the name of an axis, 'tp', several, ('dp', 'tp'), or ids of workers, [0, 2]"


@dataclass(frozen=True, slots=True)
class Topology:
    """Workers, groups and mesh: ``group = id // group_size``, rank in the group ``= id % group_size``.

    Attributes:
        num_workers: how many workers there are.
        num_groups: how many groups of neighbours they form.
        mesh: where each of them is along named axes, possibly without axes; it is independent of groups.
    """

    num_workers: int
    num_groups: int = 1
    mesh: Mesh = NO_MESH

    def __post_init__(self) -> None:
        for name, value in (("num_workers", self.num_workers), ("num_groups", self.num_groups)):
            number = whole_number(value)
            if number is None or number < 1:
                raise UsageMistake(f"{name} is {value!r}, expected a whole number of at least 1")
            object.__setattr__(self, name, number)
        if self.num_workers % self.num_groups:
            raise UsageMistake(
                f"{plural(self.num_workers, 'worker')} cannot be split into {self.num_groups} equal groups; "
                + self._advice()
            )
        if self.mesh and self.mesh.num_workers != self.num_workers:
            raise UsageMistake(
                f"a mesh {self.mesh.words} needs {plural(self.mesh.num_workers, 'worker')}, but "
                f"{self.num_workers} were asked for; choose axes whose lengths multiply to that, or "
                "leave the number out"
            )

    def _advice(self) -> str:
        workers, groups = self.num_workers, self.num_groups
        if groups > workers:
            return (
                f"for {groups} groups ask for more workers: ThreadedSession({2 * groups}, "
                f"num_groups={groups}), %disco start -n {2 * groups} --groups {groups}"
            )
        return f"num_groups can be one of {[n for n in range(1, workers + 1) if workers % n == 0]}"

    @property
    def group_size(self) -> int:
        """Workers per group."""
        return self.num_workers // self.num_groups

    def members(self, group: int) -> Members:
        """Ids of the workers of a group, ascending."""
        start = group * self.group_size
        return tuple(range(start, start + self.group_size))

    def parts(self, *, in_group: bool = True, over: Axes | None = None) -> tuple[Members, ...]:
        """The parts in which workers work together; the ids of each ascend.

        Args:
            in_group: the parts are the groups; if false, all workers are one part.
            over: axes of the mesh instead; the workers of each part differ along these only.
        """
        if over is not None:
            return self.mesh.groups(*axes_of(over))
        if in_group:
            return tuple(self.members(group) for group in range(self.num_groups))
        return (tuple(range(self.num_workers)),)

    def with_worker(self, worker: int, over: Over) -> tuple[Members, str]:
        """The part that a worker belongs to, and `over` in words: ``tp``, ``(dp, tp)``, ``[0,2]``.

        Args:
            worker: an id.
            over: axes of the mesh, or ids of workers, including that of `worker`, in any order.
        """
        named = _named(over)
        if named and all(isinstance(each, str) for each in named):
            axes = axes_of(over)  # type: ignore[arg-type]  # they are text
            return self.mesh.group_of(worker, axes), axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
        numbers = [whole_number(each) for each in named]
        ids = tuple(sorted({number for number in numbers if number is not None}))
        if not ids or None in numbers:
            raise UsageMistake(f"over is {over!r}, {_EXPECTED}")
        if not 0 <= ids[0] <= ids[-1] < self.num_workers:
            there = ranges(range(self.num_workers))
            raise UsageMistake(f"over={over!r} names a worker that does not exist; this session has {there}")
        if worker not in ids:
            raise UsageMistake(
                f"over={over!r} leaves out worker {worker}, which makes the call; only workers named in it "
                f"may make it: if worker_id in {list(ids)}"
            )
        return ids, ranges(ids)

    def part_size(self, *, in_group: bool = True, over: Axes | None = None) -> int:
        """How many workers each of `parts` has."""
        return len(self.parts(in_group=in_group, over=over)[0])

    def roots(self, *, in_group: bool = True, over: Axes | None = None) -> Members:
        """Ids of the first worker of each of `parts`."""
        return tuple(part[0] for part in self.parts(in_group=in_group, over=over))


def axes_of(over: Axes) -> tuple[str, ...]:
    """The axes that `over` names."""
    named = _named(over)
    if not named or not all(isinstance(each, str) for each in named):
        raise UsageMistake(
            f"over is {over!r}, expected an axis of the mesh, 'tp', or several, ('dp', 'tp'); ids of workers "
            "are for calls that these make themselves"
        )
    if any("," in each for each in named):
        raise UsageMistake(f"over is {over!r}; several axes are a tuple, ('dp', 'tp')")
    return named


def _named(over: Over) -> tuple[Any, ...]:
    if isinstance(over, str):
        return (over,)
    if isinstance(over, bytes | Mapping):  # bytes iterate as numbers; a mapping names places
        raise UsageMistake(f"over is {over!r}, {_EXPECTED}")
    try:
        return tuple(over)
    except TypeError:
        raise UsageMistake(f"over is {over!r}, {_EXPECTED}") from None
