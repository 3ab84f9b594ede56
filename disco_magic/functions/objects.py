"""Python objects between workers: pickled, and carried as bytes by the collectives for arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.functions.collectives import Collectives
from disco_magic.functions.packing import packed, unpacked
from disco_magic.functions.participants import several_times

if TYPE_CHECKING:
    from disco_magic.core.topology import Over


class Objects(Collectives):
    """A worker's collectives for anything that pickle takes; mixed into `WorkerContext`.

    Members, ranks and errors are those of `Collectives`. Every member gets copies, the sender too; objects of
    classes that cells define become objects of the receiver's own classes.
    """

    def broadcast_object(
        self, x: Any = None, root: int = 0, *, in_group: bool = True, over: Over | None = None
    ) -> Any:
        """Give every member a copy of rank `root`'s object; what the others pass is ignored.

        Raises:
            UsageMistake: it cannot be pickled, or not be read again: its class is unknown there.

        Cost: pickling it once and reading it once per member, plus `broadcast` of the bytes.

        Example:
            >>> session.run("broadcast_object({'lr': 0.1} if worker_id == 0 else None)")
            [0-3] {'lr': 0.1}
        """
        over = several_times(over)
        members, _ = self._over("broadcast_object", over, in_group=in_group)
        sent = packed("broadcast_object", x) if members.index(self.id) == root else None
        got = self.broadcast(sent, root, in_group=in_group, over=over)
        return unpacked("broadcast_object", got, members[root])

    def allgather_objects(self, x: Any, *, in_group: bool = True, over: Over | None = None) -> list[Any]:
        """Give every member a list of all members' objects, in rank order.

        Raises:
            UsageMistake: see `broadcast_object`.

        Cost: pickling each once and reading it once per member, plus two `allgather`.

        Example:
            >>> session.run("allgather_objects(('step', worker_id))[2]")
            [0-3] ('step', 2)
        """
        over = several_times(over)
        members, _ = self._over("allgather_objects", over, in_group=in_group)
        sent = packed("allgather_objects", x)
        lengths = self.allgather(np.array([sent.size]), in_group=in_group, over=over).tolist()
        whole = self.allgather(sent, in_group=in_group, over=over)
        objects, begin = [], 0
        for worker, length in zip(members, lengths, strict=True):
            objects.append(unpacked("allgather_objects", whole[begin : begin + length], worker))
            begin += length
        return objects
