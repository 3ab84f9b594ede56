"""Trees of arrays between workers, reduced in few calls; and any objects, pickled and carried as bytes."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import PlaneMismatch, UsageMistake
from disco_magic.errors.mistakes import about
from disco_magic.functions.arrays import refuse_traced
from disco_magic.functions.collectives import Collectives
from disco_magic.functions.leaves import Leaf, Tree, buckets, see_who_waits, split, targets_in
from disco_magic.functions.participants import several_times
from disco_magic.functions.pickles import packed, unpacked
from disco_magic.phrases import people, who_has
from disco_magic.values.digests import digest

if TYPE_CHECKING:
    from disco_magic.core.topology import Members, Over

_VERB: Final = "allreduce_tree"
# Takes the place of a part's look where a member lacks the part.
_MISSING: Final = "no such part"


class Trees(Collectives):
    """A worker's collectives for any objects, and for many arrays at once; mixed into `WorkerContext`.

    Members, ranks and errors are those of `Collectives`. Of an object that pickle takes every member gets
    copies, the sender too; objects of classes that cells define become objects of the receiver's own classes.
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

    def allreduce_tree(
        self,
        x: Any,
        op: str = "sum",
        *,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any:
        """`allreduce` every array in a dict, list or tuple, at any depth; small ones travel together.

        All members call it. Gradients of a model: ``allreduce_tree(grads, "avg", out=grads)``.

        Args:
            x: dicts, lists and tuples of arrays, tensors and numbers; everywhere with the same keys (as they
                are written, in any order), lengths, shapes and dtypes. None stays None. In a list of numbers,
                each is reduced.
            op: see `allreduce`.
            out: a tree with the same parts that takes the results; may be `x` itself. Parts that share memory
                with others, such as weights that are in it twice, are written when all were reduced.
            in_group: the worker's group only, or all workers.
            over: axes of the mesh, or ids of the members, in place of `in_group`.

        Returns:
            `out`, or a tree like `x`, of dicts, lists, tuples and named tuples, with a result for each array.

        Raises:
            UsageMistake: see `allreduce`; or `out` has other parts than `x`, or other shapes or dtypes.
            PlaneMismatch: see `allreduce`; or the members' trees differ. Nothing was written. If a member
                fails later, or on an interrupt, `out` may have been filled in part.

        Cost: a small collective; one for each dtype and 4 MiB of arrays up to 64 KiB, 20 us and two copies
        for each of these arrays, twice as much with `out`; that of `allreduce` for each larger array.

        Example:
            >>> session.run("allreduce_tree({'w': np.full(2, worker_id), 'b': [1.0, None]})")
            [0-3] {'w': array([6, 6]), 'b': [np.float64(4.0), None]}
        """
        over = several_times(over)
        members, _ = self._over(_VERB, over, in_group=in_group)
        tree, leaves = self._read(x, op, out, over)
        looks = dict.fromkeys(tree.parts, "None") | {leaf.path: leaf.looks for leaf in leaves}
        self._agree(members, looks, in_group=in_group, over=over)
        parts: dict[str, Any] = {}
        try:
            for bucket in buckets(leaves):
                parts |= self._reduced(bucket, op, in_group=in_group, over=over)
            for leaf in (each for each in leaves if each.target is not None and not each.is_direct):
                self._fill(leaf, parts[leaf.path])
        finally:
            # As in `_call`: from now on its library may change it.
            if any(map(attrgetter("is_lent"), leaves)):
                self.place.settle()
        results = {leaf.path: leaf.result(parts[leaf.path]) for leaf in leaves}
        return tree.rebuilt(results) if out is None else out

    def _read(self, x: Any, op: str, out: Any | None, over: Over | None) -> tuple[Tree, list[Leaf]]:
        """Read a tree, and its arrays and numbers, each with what it is to fill."""
        with about(_VERB):
            tree = Tree("x", x)
        for given in tree.parts.values():
            refuse_traced(_VERB, given)
        try:
            with about(_VERB):
                leaves = self._leaves(tree, op, {} if out is None else targets_in(tree, out))
                if out is not None:
                    see_who_waits(leaves)
        except UsageMistake as mistake:
            self._tell_of_axis(mistake, _VERB, () if over is not None else (x, op))
            raise
        return tree, leaves

    def _leaves(self, tree: Tree, op: str, targets: dict[str, Any]) -> list[Leaf]:
        leaves = []
        for path, given in tree.parts.items():
            if given is not None:
                leaf = Leaf(path, given, self.place, targets.get(path))
                try:
                    leaf.array = self._plane.reducible(self.id, leaf.near, op, leaf.target)
                except UsageMistake as mistake:
                    raise UsageMistake(f"x{path}: {str(mistake).removeprefix('allreduce: ')}") from None
                leaves.append(leaf)
        return leaves

    def _all_have(self, own: bytes, members: Members, *, in_group: bool, over: Over | None) -> bool:
        """Whether all members bring the same bytes, a digest of what they have; all of them call it."""
        everybody_s = self.allgather(np.frombuffer(own, np.uint8), in_group=in_group, over=over)
        return bool(everybody_s.tobytes() == own * len(members))

    def _agree(self, members: Members, mine: dict[str, str], *, in_group: bool, over: Over | None) -> None:
        """Check that all members have the same parts; costs a few bytes each if they do.

        Raises:
            PlaneMismatch: they do not; on all of them.
        """
        if self._all_have(digest(repr(sorted(mine.items())).encode()), members, in_group=in_group, over=over):
            return
        trees = self.allgather_objects(mine, in_group=in_group, over=over)
        path = min(path for tree in trees for path in tree if len({each.get(path) for each in trees}) > 1)
        have = who_has(zip(members, (tree.get(path, _MISSING) for tree in trees), strict=True))
        said = ", ".join(f"{people(workers)} gave {looks}" for looks, workers in have.items())
        raise PlaneMismatch(
            f"{_VERB}: the members disagree on x{path}: {said} - give the same parts everywhere"
        )

    def _reduced(self, bucket: list[Leaf], op: str, *, in_group: bool, over: Over | None) -> dict[str, Any]:
        """Path -> the result of each leaf, in memory of its own or in the leaf's target."""
        if len(bucket) == 1:
            leaf = bucket[0]
            target = leaf.target if leaf.is_direct else None
            return {leaf.path: self.allreduce(leaf.array, op, out=target, in_group=in_group, over=over)}
        join = self.place.xp.concatenate if bucket[0].where else np.concatenate
        whole = join([leaf.array.reshape(-1) for leaf in bucket])
        whole = self.allreduce(whole, op, in_group=in_group, over=over)
        parts = {}
        for leaf, part in split(whole, bucket):
            if leaf.is_direct:
                self._fill(leaf, part)
            parts[leaf.path] = part.copy() if leaf.target is None else part
        return parts

    def _fill(self, leaf: Leaf, part: Any) -> None:
        # On the current stream, which need not be the worker's own.
        (self.place.xp if leaf.where else np).copyto(leaf.target, part)
