"""A process group of PyTorch whose collectives are workers'.

PyTorch calls a group's methods with lists of tensors, nearly always of one, and with options; results go into
existing tensors. It takes what is returned for work under way; here only `messages` are.

A group acts for the worker that calls it, and groups of the same members are equal. A module of the process
may keep the group of the worker that came last, or of the one that has imported it: PyTorch's own do.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any, Final

from disco_magic.core.seat import Theirs
from disco_magic.functions.process_groups.arguments import (
    joined,
    joined_alike,
    list_of,
    listed,
    operation_of,
    pairs_of,
    see_alike,
    see_one_each,
    shares_of,
    split,
)
from disco_magic.functions.process_groups.members import Members
from disco_magic.functions.process_groups.memory import flat, near, written
from disco_magic.functions.process_groups.work import done

_ALL_REDUCE: Final = Theirs("all_reduce")


class Verbs(Members):
    """The methods of a group, each under the names that versions of PyTorch have for it.

    They take tensors on the CPU or on the worker's GPU, of any shape, strides and dtype that the session's
    collectives take, alike on all members. Each raises what those do (`Collectives`), and UsageMistake if the
    tensors to be filled do not fit. Cost: that of the collective, about 30 us, and one copy of what is not
    contiguous or comes in several tensors.
    """

    # What PyTorch asks of a backend. A group is its own backend, for tensors on all devices.
    supports_splitting = supports_coalescing = False
    supports_time_estimate = _supports_time_estimate = False  # the second name: since 2.15

    # --- reductions ----------------------------------------------------------------------------------

    def allreduce(self, tensors: Any, *opts: Any, **named: Any) -> Any:
        """Reduce each tensor in place."""
        op = operation_of(*opts, **named)
        for tensor in listed(tensors):
            array = near(tensor)
            self._call("allreduce", array, op, array, theirs=_ALL_REDUCE)
        return done(tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Any, *opts: Any, **named: Any) -> Any:
        """Reduce each tensor in place, at the root."""
        op, root = operation_of(*opts, **named), self._root(*opts, **named)
        for tensor in listed(tensors):
            array = near(tensor)
            self._call("reduce", array, op, root, array if root == self.rank() else None)
        return done(tensors)

    def reduce_scatter(self, outs: Any, ins: Any, *opts: Any, **named: Any) -> Any:
        """Reduce the members' lists item by item, an item for each member; lengths may differ."""
        op = operation_of(*opts, **named)
        for out, parts in pairs_of(outs, ins, of=outs):
            see_one_each("reduce_scatter", "input", parts, self.size())
            with written(out) as target:
                theirs = list_of("reduce_scatter", parts, out=tuple(out.shape))
                lengths = tuple(part.numel() for part in parts)
                counts = None if len(set(lengths)) == 1 else lengths
                self._call("reduce_scatter", joined(parts), op, 0, counts, target, theirs=theirs)
        return done(outs)

    def reduce_scatter_single(self, out: Any, given: Any, *opts: Any, **named: Any) -> Any:
        """Reduce one tensor, and give each member its part."""
        op = operation_of(*opts, **named)
        theirs = Theirs("reduce_scatter_tensor", tuple(given.shape), tuple(out.shape))
        with written(out) as target:
            self._call("reduce_scatter", flat(given), op, 0, None, target, theirs=theirs)
        return done([out])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outs: Any, ins: Any, *opts: Any) -> Any:
        """Do so for several tensors."""
        for out, given in zip(outs, ins, strict=True):
            self.reduce_scatter_single(out, given, *opts)
        return done(outs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --- without reduction ---------------------------------------------------------------------------

    def barrier(self, *_opts: Any, **_named: Any) -> Any:
        """Wait until all members have come."""
        self._call("barrier")
        return done([])

    def monitored_barrier(self, *_opts: Any, **_named: Any) -> None:
        """Like `barrier`, which always says which members do not come."""
        self._call("barrier")

    def broadcast(self, tensors: Any, *opts: Any, **named: Any) -> Any:
        """Broadcast each tensor in place."""
        root = self._root(*opts, **named)
        for tensor in listed(tensors):
            bits = near(tensor, bits=True)
            self._call("broadcast", bits, root, bits)
        return done(tensors)

    def allgather(self, outs: Any, ins: Any, *_opts: Any, **_named: Any) -> Any:
        """Gather every member's tensors, each into a list of tensors."""
        for parts, given in pairs_of(outs, ins, of=ins):
            self._fits("all_gather", parts, given)
            takes = tuple(part.numel() for part in parts)
            theirs = Theirs("all_gather", tuple(given.shape), takes=takes, parts=len(parts))
            split(self._call("allgather", flat(given, bits=True), 0, None, theirs=theirs), parts)
        return done(outs)

    def allgather_coalesced(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """Gather a list of tensors from each member."""
        return self.allgather(list(zip(*outs, strict=True)), ins)

    def all_gather_single(self, out: Any, given: Any, *_opts: Any) -> Any:
        """Gather into one tensor, what all give alike."""
        theirs = Theirs("all_gather_into_tensor", tuple(given.shape), tuple(out.shape))
        with written(out, bits=True) as whole:
            self._call("allgather", flat(given, bits=True), 0, whole, theirs=theirs)
        return done([out])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """Do so for several tensors."""
        for out, given in zip(outs, ins, strict=True):
            self.all_gather_single(out, given)
        return done(outs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outs: Any, ins: Any, *opts: Any, **named: Any) -> Any:
        """Gather every member's tensors, each into a list of tensors, at the root."""
        root = self._root(*opts, **named)
        is_root = root == self.rank()
        pairs: Any = pairs_of(outs, ins, of=ins) if is_root else [(None, each) for each in listed(ins)]
        for parts, given in pairs:
            if is_root:
                see_alike([given, *parts])
                self._fits("gather", parts, given)
            # Only the root has the list, but all are to be told of by the same words.
            theirs = Theirs("gather", tuple(given.shape), parts=self.size())
            whole = self._call("gather", flat(given, bits=True), root, 0, None, theirs=theirs)
            if is_root:
                split(whole, parts)
        return done(outs)

    def gather_single(self, out: Any, given: Any, *opts: Any, **named: Any) -> Any:
        """Gather into one tensor, at the root."""
        root = self._root(*opts, **named)
        whole = self._call("gather", flat(given, bits=True), root, 0, None)
        if root == self.rank():
            split(whole, [out])
        return done([out])

    def scatter(self, outs: Any, ins: Any, *opts: Any, **named: Any) -> Any:
        """Give each member one tensor of the root's list."""
        root = self._root(*opts, **named)
        is_root = root == self.rank()
        pairs: Any = pairs_of(outs, ins, of=outs) if is_root else [(each, None) for each in listed(outs)]
        for out, parts in pairs:
            whole, theirs = None, Theirs("scatter", out=tuple(out.shape))
            if is_root:
                see_one_each("scatter", "input", parts, self.size())
                whole, theirs = joined_alike(parts, out), list_of("scatter", parts, out=tuple(out.shape))
            with written(out, bits=True) as part:
                self._call("scatter", whole, root, 0, None, part, theirs=theirs)
        return done(outs)

    def all_to_all_single(
        self, out: Any, given: Any, out_sizes: Any = None, in_sizes: Any = None, *_opts: Any
    ) -> Any:
        """Exchange parts along the first axis: equal ones, or as many rows as `in_sizes` says.

        Which members pass sizes nobody knows, so all make the same call, with the lengths of their parts; the
        plane compares what one gives with the room of the other.
        """
        gives = shares_of(given, "input", in_sizes, self.size())
        takes = shares_of(out, "output", out_sizes, self.size())
        shape, filled = tuple(given.shape), tuple(out.shape)
        row = prod(shape[1:]) if shape[1:] == filled[1:] else 0
        theirs = Theirs("all_to_all_single", shape, filled, takes, row)
        with written(out, bits=True) as target:
            self._call("alltoall", flat(given, bits=True), 0, gives, target, theirs=theirs)
        return done([out])

    alltoall_base = all_to_all_single

    def alltoall(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """Send each member one tensor of a list; of any shapes."""
        for what, tensors in (("input", ins), ("output", outs)):
            see_one_each("all_to_all", what, tensors, self.size())
        counts = tuple(given.numel() for given in ins)
        theirs = list_of("all_to_all", ins, takes=tuple(out.numel() for out in outs))
        split(self._call("alltoall", joined(ins, bits=True), 0, counts, None, theirs=theirs), outs)
        return done(outs)


@cache
def group_class(process_group: type) -> Any:
    """The class of groups, derived from `Verbs` and PyTorch's class."""
    return type("WorkerGroup", (Verbs, process_group), {"__module__": __name__})
