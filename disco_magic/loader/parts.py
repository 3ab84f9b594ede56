"""The functions that workers execute to load parameters: one call per tensor, each for the worker's part.

Replicated tensors are read by every worker, not broadcast: four threads that read 256 MiB each take 260 ms
from the page cache, one that reads and three that copy take 240 to 260 (2 cores), and readers do not wait for
each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disco_magic.functions.aligned import new_array
from disco_magic.functions.context import worker
from disco_magic.functions.participants import who

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.core.mesh import Mesh
    from disco_magic.functions.participants import Who
    from disco_magic.loader.progress import Tally
    from disco_magic.loader.stored import Array, StoredFile, StoredTensor


def _tallied(tally: Tally, worker_id: int, sizes: Iterable[int]) -> bool:
    for nbytes in sizes:
        tally.add(worker_id, nbytes)
        if tally.stopped:
            return False
    return True


@dataclass(frozen=True, slots=True)
class LoadPart:
    """Returns a worker's part of a tensor, in its own memory; None if the load was stopped meanwhile.

    Attributes:
        tensor: the tensor to load.
        axis: the axis it is split along; None: every worker gets the whole.
        who: which workers split it: a group's, all, or those along axes of the mesh.
        tally: counts what was loaded.
    """

    tensor: StoredTensor
    axis: int | None
    who: Who
    tally: Tally

    @property
    def disco_name(self) -> str:
        """The name in errors and tables of commands."""
        return f"load {self.tensor.name!r}"

    def __call__(self) -> Array | None:
        """Read the calling worker's part.

        Raises:
            DiscoError: the file was changed or removed since it was checked. The other workers stop too.
        """
        me, tally = worker(), self.tally
        members = me.members(**who(self.who))
        rank, count = members.index(me.id), len(members)
        if tally.stopped:
            return None
        try:
            out: Array = new_array(self.tensor.part_shape(self.axis, count), self.tensor.dtype)
            if not _tallied(tally, me.id, self.tensor.copy_to(out, self.axis, rank)):
                return None
        except BaseException:
            tally.stop()
            raise
        mine: Array = me.place.move_in(out)
        if self.axis is None:
            me.marks.add(mine)
        elif copies := self._others(me.mesh):
            me.marks.add(mine, copies)
        return mine

    def _others(self, mesh: Mesh) -> tuple[str, ...]:
        """The axes along which workers have the same part."""
        along = self.who
        return () if isinstance(along, bool) else tuple(axis for axis in mesh if axis not in along)


@dataclass(frozen=True, slots=True)
class CheckFiles:
    """Compares the MD5 sums of files; the workers divide them among themselves."""

    files: tuple[StoredFile, ...]
    tally: Tally

    @property
    def disco_name(self) -> str:
        """The name in errors and tables of commands."""
        return f"check {len(self.files)} files"

    def __call__(self) -> None:
        """Check the calling worker's share of the files.

        Raises:
            DiscoError: a file is damaged, changed, or gone. The other workers stop too.
        """
        try:
            self._check_mine()
        except BaseException:
            self.tally.stop()
            raise

    def _check_mine(self) -> None:
        me = worker()
        all(_tallied(self.tally, me.id, file.hashed()) for file in self.files[me.id :: me.num_workers])
