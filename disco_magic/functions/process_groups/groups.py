"""A process group of PyTorch whose collectives are workers'.

PyTorch calls a group's methods with lists of tensors, nearly always of one, and with options; results go into
existing tensors. It takes what is returned for work under way; here only `messages` are.

A group acts for the worker that calls it, and groups of the same members are equal. A module of the process
may keep the group of the worker that came last, or of the one that has imported it: PyTorch's own do.
"""

from __future__ import annotations

import importlib
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import UsageMistake
from disco_magic.functions.process_groups.arguments import (
    as_row,
    joined,
    joined_alike,
    listed,
    operation_of,
    pairs_of,
    root_of,
    see_can_be_averaged,
    see_equal,
    split,
)
from disco_magic.functions.process_groups.memory import flat, near, written
from disco_magic.functions.process_groups.messages import Messages, done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.functions.context import WorkerContext
    from disco_magic.functions.process_groups.messages import Caller


class _Here(threading.local):
    """For the calling thread: whether PyTorch computes gradients in it, not in other threads."""

    computes: bool = False


_here: Final = _Here()


class Verbs(Messages):
    """The methods of a group, each under the names that versions of PyTorch have for it.

    They take tensors on the CPU or on the worker's GPU, of any shape, strides and dtype that the session's
    collectives take, alike on all members. Each raises what those do (`Collectives`), and UsageMistake if the
    tensors to be filled do not fit. Cost: that of the collective, about 30 us, and one copy of what is not
    contiguous or comes in several tensors.

    Args:
        members: ids of the workers, ascending; ranks go by it.
        mine: rank of the worker that makes the group.
        name: PyTorch's name for it, with the worker's own part after an ``@``.
        caller: returns the worker that calls, raises UsageMistake if none of the session does; its `channel`
            is unique to the group. Equal for the same group on each worker.
    """

    # What PyTorch asks of a backend. A group is its own backend, for tensors on all devices.
    supports_splitting = supports_coalescing = supports_time_estimate = False

    def __init__(self, members: tuple[int, ...], mine: int, name: str, caller: Caller) -> None:
        super().__init__(mine, len(members))  # type: ignore[call-arg]  # of PyTorch's class, see `group_class`
        self._members, self._mine, self._name, self._caller = members, mine, name, caller
        self._channel = caller.channel
        self._begin_messages()

    @property
    def group_name(self) -> str:
        """The name by which compiled code finds the group."""
        return self._name

    def getBackendName(self) -> str:  # noqa: N802 - PyTorch's
        """The name that `torch.distributed.get_backend` returns."""
        return "disco"

    def rank(self) -> int:
        """Rank of the calling worker; elsewhere, of the one that made the group."""
        try:
            return self._members.index(self._caller().id)
        except ValueError:
            return self._mine

    def size(self) -> int:
        """Number of members."""
        return len(self._members)

    def __repr__(self) -> str:
        return f"<process group of workers {list(self._members)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verbs) and self._common == other._common

    def __hash__(self) -> int:
        return hash(self._common)

    @property
    def _common(self) -> tuple[Any, ...]:
        return self._caller, self._members

    def _get_backend(self, _device: Any) -> Any:
        return self

    @property
    def _device_types(self) -> list[Any]:
        """Kinds of devices whose tensors the group takes."""
        kinds = dict.fromkeys([self._caller().place.device.kind, "cpu"])
        return list(map(importlib.import_module("torch").device, kinds))

    def _worker(self) -> WorkerContext:
        """The worker that calls.

        Raises:
            UsageMistake: it is no member, or the caller is no worker.
        """
        me = self._caller()
        if me.id not in self._members:
            raise UsageMistake(f"worker {me.id} is no member of the process group of {list(self._members)}")
        if not _here.computes:
            # On GPUs PyTorch computes gradients in threads of its own, which cannot call collectives.
            importlib.import_module("torch").autograd.set_multithreading_enabled(False)
            _here.computes = True
        return me

    def _fits(self, parts: Sequence[Any], given: Any) -> None:
        """Check that what the worker gives itself fits what is to take it.

        Raises:
            UsageMistake: it does not; no other member was involved.
        """
        if len(parts) != len(self._members):
            raise UsageMistake(f"{len(parts)} output tensors were passed for {len(self._members)} members")
        see_equal(given.numel(), parts[self.rank()].numel(), "elements")

    def _call(self, verb: str, *given: Any) -> Any:
        """Call a collective of the worker, with all arguments of the plane's verb."""
        me = self._worker()
        if given[1:2] == ("avg",):
            see_can_be_averaged(given[0])
        over = None if len(self._members) == me.num_workers else list(self._members)
        # Not the verb: by the tag, groups of the same members do not meet each other.
        return me._call(verb, *given, in_group=over is not None, over=over, tag=self._channel or 0)  # noqa: SLF001

    # --- reductions ----------------------------------------------------------------------------------

    def allreduce(self, tensors: Any, *opts: Any, **named: Any) -> Any:
        """Reduce each tensor in place."""
        op = operation_of(*opts, **named)
        for tensor in listed(tensors):
            array = near(tensor)
            self._call("allreduce", array, op, array)
        return done(tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Any, *opts: Any, **named: Any) -> Any:
        """Reduce each tensor in place, at the root."""
        op, root = operation_of(*opts, **named), root_of(*opts, **named)
        for tensor in listed(tensors):
            array = near(tensor)
            self._call("reduce", array, op, root, array if root == self.rank() else None)
        return done(tensors)

    def reduce_scatter(self, outs: Any, ins: Any, *opts: Any, **named: Any) -> Any:
        """Reduce the members' lists item by item, an item for each member; lengths may differ."""
        op = operation_of(*opts, **named)
        for out, parts in pairs_of(outs, ins, of=outs):
            with written(out) as target:
                if len({part.numel() for part in parts}) == 1:
                    self._call("reduce_scatter", joined(parts), op, 0, target)
                    continue
                for rank, part in enumerate(parts):
                    self._call("reduce", flat(part), op, rank, target if rank == self.rank() else None)
        return done(outs)

    def reduce_scatter_single(self, out: Any, given: Any, *opts: Any, **named: Any) -> Any:
        """Reduce one tensor, and give each member its part."""
        op = operation_of(*opts, **named)
        with written(out) as target:
            self._call("reduce_scatter", flat(given), op, 0, target)
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
        root = root_of(*opts, **named)
        for tensor in listed(tensors):
            bits = near(tensor, bits=True)
            self._call("broadcast", bits, root, bits)
        return done(tensors)

    def allgather(self, outs: Any, ins: Any, *_opts: Any, **_named: Any) -> Any:
        """Gather every member's tensors, each into a list of tensors."""
        for parts, given in pairs_of(outs, ins, of=ins):
            self._fits(parts, given)
            split(self._call("allgather", as_row(given, parts), 0, None).reshape(-1), parts)
        return done(outs)

    def allgather_coalesced(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """Gather a list of tensors from each member."""
        return self.allgather(list(zip(*outs, strict=True)), ins)

    def all_gather_single(self, out: Any, given: Any, *_opts: Any) -> Any:
        """Gather into one tensor."""
        with written(out, bits=True) as whole:
            self._call("allgather", flat(given, bits=True), 0, whole)
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
        root = root_of(*opts, **named)
        is_root = root == self.rank()
        pairs: Any = pairs_of(outs, ins, of=ins) if is_root else [(None, each) for each in listed(ins)]
        for parts, given in pairs:
            if is_root:
                self._fits(parts, given)
            whole = self._call("gather", flat(given, bits=True), root, 0, None)
            if is_root:
                split(whole, parts)
        return done(outs)

    def gather_single(self, out: Any, given: Any, *opts: Any, **named: Any) -> Any:
        """Gather into one tensor, at the root."""
        root = root_of(*opts, **named)
        whole = self._call("gather", flat(given, bits=True), root, 0, None)
        if root == self.rank():
            split(whole, [out])
        return done([out])

    def scatter(self, outs: Any, ins: Any, *opts: Any, **named: Any) -> Any:
        """Give each member one tensor of the root's list."""
        root = root_of(*opts, **named)
        is_root = root == self.rank()
        pairs: Any = pairs_of(outs, ins, of=outs) if is_root else [(each, None) for each in listed(outs)]
        for out, parts in pairs:
            whole = joined_alike(parts, out) if is_root else None
            with written(out, bits=True) as part:
                self._call("scatter", whole, root, 0, part)
        return done(outs)

    def all_to_all_single(
        self, out: Any, given: Any, out_sizes: Any = None, in_sizes: Any = None, *_opts: Any
    ) -> Any:
        """Exchange parts along the first axis: equal ones, or as many rows as `in_sizes` says."""
        counts = tuple(map(int, in_sizes)) if in_sizes else None
        if in_sizes and out_sizes:
            see_equal(in_sizes[self.rank()], out_sizes[self.rank()], "rows")
        self._call("alltoall", near(given, bits=True), 0, counts, near(out, bits=True))
        return done([out])

    alltoall_base = all_to_all_single

    def alltoall(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """Send each member one tensor of a list; of any shapes."""
        counts = tuple(given.numel() for given in ins)
        self._fits(outs, ins[self.rank()])
        split(self._call("alltoall", joined(ins, bits=True), 0, counts, None), outs)
        return done(outs)


@cache
def group_class(process_group: type) -> Any:
    """The class of groups, derived from `Verbs` and PyTorch's class."""
    return type("WorkerGroup", (Verbs, process_group), {"__module__": __name__})
