"""A process group of PyTorch's whose collectives are workers'.

PyTorch calls a group's methods with lists of tensors, nearly always of one, and with options; results go into
tensors that are there. It takes what comes back for something under way: here it is over, but for messages
(`torch_messages`).

A group acts for the worker that calls it, and those of the same members count as one. What a module of the
process keeps is the group of the worker that came last, or of the one that has imported it: PyTorch's own do.
"""

from __future__ import annotations

import importlib
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.torch_memory import flat, near, written
from disco_magic.functions.torch_messages import Messages, done

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.functions.context import WorkerContext

OPERATIONS: Final = {"SUM": "sum", "AVG": "avg", "PRODUCT": "prod", "MIN": "min", "MAX": "max"}
"""PyTorch's names of what reduces -> ours."""


class _Here(threading.local):
    """Of the calling thread: whether PyTorch computes gradients in it, and not in others."""

    computes: bool = False


_here: Final = _Here()


class Verbs(Messages):
    """The methods of a group, each under the names that versions of PyTorch have for it.

    Args:
        members: ids of the workers, ascending; ranks go by it.
        mine: rank of the worker that makes the group.
        name: what PyTorch calls it, with what is that worker's alone behind an ``@``.
        caller: gives the worker that calls, raises UsageMistake if none of the session's does; equal in all
            groups of a session.
    """

    # What PyTorch asks of a backend. A group is one itself, for tensors of all devices.
    supports_splitting = supports_coalescing = supports_time_estimate = False

    def __init__(
        self, members: tuple[int, ...], mine: int, name: str, caller: Callable[[], WorkerContext]
    ) -> None:
        super().__init__(mine, len(members))  # type: ignore[call-arg]  # of PyTorch's class, see `group_class`
        self._members, self._mine, self._name, self._caller = members, mine, name, caller
        self._begin_messages()

    @property
    def group_name(self) -> str:
        """By which compiled code finds the group."""
        return self._name

    def getBackendName(self) -> str:  # noqa: N802 - PyTorch's
        """As `torch.distributed.get_backend` says it."""
        return "disco"

    def rank(self) -> int:
        """Place of the calling worker among the members; elsewhere of the one that has made the group."""
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
        return self._caller, self._members, self._name.partition("@")[0]

    def _get_backend(self, _device: Any) -> Any:
        return self

    def _worker(self) -> WorkerContext:
        """The worker that calls.

        Raises:
            UsageMistake: it is no member, or no worker.
        """
        me = self._caller()
        if me.id not in self._members:
            raise UsageMistake(f"worker {me.id} is no member of the process group of {list(self._members)}")
        if not _here.computes:
            # On GPUs PyTorch computes gradients in threads of its own, which cannot make collectives.
            importlib.import_module("torch").autograd.set_multithreading_enabled(False)
            _here.computes = True
        return me

    def _call(self, verb: str, *given: Any, **named: Any) -> Any:
        me = self._worker()
        everybody = len(self._members) == me.num_workers
        who: dict[str, Any] = {"in_group": False} if everybody else {"over": list(self._members)}
        return getattr(me, verb)(*given, **named, **who)

    # --- reductions ----------------------------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Each in place."""
        op = _operation(opts)
        for tensor in _listed(tensors):
            array = near(tensor)
            self._call("allreduce", array, op, out=array)
        return done(tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """Each in place, at the root."""
        op, root = _operation(opts), _root(opts)
        for tensor in _listed(tensors):
            array = near(tensor)
            self._call("reduce", array, op, root, out=array if root == self.rank() else None)
        return done(tensors)

    def reduce_scatter(self, outs: Any, ins: Any, opts: Any = None) -> Any:
        """One tensor of a list that every member gives, reduced, to each; lengths may differ."""
        op = _operation(opts)
        for out, parts in zip(outs, ins, strict=True):
            with written(out) as target:
                if len({part.numel() for part in parts}) == 1:
                    self._call("reduce_scatter", joined(parts), op, out=target)
                    continue
                for rank, part in enumerate(parts):
                    self._call("reduce", flat(part), op, rank, out=target if rank == self.rank() else None)
        return done(outs)

    def reduce_scatter_single(self, out: Any, given: Any, opts: Any = None) -> Any:
        """Of one tensor."""
        with written(out) as target:
            self._call("reduce_scatter", flat(given), _operation(opts), out=target)
        return done([out])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outs: Any, ins: Any, opts: Any = None) -> Any:
        """Several of them."""
        for out, given in zip(outs, ins, strict=True):
            self.reduce_scatter_single(out, given, opts)
        return done(outs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --- what is moved only --------------------------------------------------------------------------

    def barrier(self, *_opts: Any, **_named: Any) -> Any:
        """Until all have come."""
        self._call("barrier")
        return done([])

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """Each in place."""
        for tensor in _listed(tensors):
            bits = near(tensor, bits=True)
            self._call("broadcast", bits, _root(opts), out=bits)
        return done(tensors)

    def allgather(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """A list of tensors for each that every member gives."""
        for parts, given in zip(outs, ins, strict=True):
            split(self._call("allgather", flat(given, bits=True)), parts)
        return done(outs)

    def allgather_coalesced(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """Of each member a list of tensors."""
        return self.allgather(list(zip(*outs, strict=True)), ins)

    def all_gather_single(self, out: Any, given: Any, *_opts: Any) -> Any:
        """Into one tensor."""
        with written(out, bits=True) as whole:
            self._call("allgather", flat(given, bits=True), out=whole)
        return done([out])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """Several of them."""
        for out, given in zip(outs, ins, strict=True):
            self.all_gather_single(out, given)
        return done(outs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outs: Any, ins: Any, opts: Any = None) -> Any:
        """A list of tensors for each that every member gives, at the root."""
        root = _root(opts)
        for number, given in enumerate(_listed(ins)):
            whole = self._call("gather", flat(given, bits=True), root)
            if root == self.rank():
                split(whole, outs[number])
        return done(outs)

    def gather_single(self, out: Any, given: Any, opts: Any = None) -> Any:
        """Into one tensor, at the root."""
        root = _root(opts)
        whole = self._call("gather", flat(given, bits=True), root)
        if root == self.rank():
            split(whole, [out])
        return done([out])

    def scatter(self, outs: Any, ins: Any, opts: Any = None) -> Any:
        """One tensor of a list that the root gives, to each."""
        root = _root(opts)
        for number, out in enumerate(_listed(outs)):
            whole = joined(ins[number], bits=True) if root == self.rank() else None
            with written(out, bits=True) as part:
                self._call("scatter", whole, root, out=part)
        return done(outs)

    def all_to_all_single(
        self, out: Any, given: Any, _out_sizes: Any = None, in_sizes: Any = None, *_opts: Any
    ) -> Any:
        """Along the first axis, in equal parts or in as many rows as `in_sizes` says."""
        counts = tuple(map(int, in_sizes)) if in_sizes else None
        self._call("alltoall", near(given, bits=True), counts=counts, out=near(out, bits=True))
        return done([out])

    alltoall_base = all_to_all_single

    def alltoall(self, outs: Any, ins: Any, *_opts: Any) -> Any:
        """One tensor of a list to each; of any shapes."""
        counts = tuple(given.numel() for given in ins)
        split(self._call("alltoall", joined(ins, bits=True), counts=counts), outs)
        return done(outs)


def split(whole: Any, parts: Sequence[Any]) -> None:
    """Put what was received, one array of all elements, into tensors.

    Raises:
        UsageMistake: they have more elements, or fewer.
    """
    sizes = [part.numel() for part in parts]
    if len(whole) != sum(sizes):
        raise UsageMistake(
            f"{len(whole)} elements were received, for tensors of {sizes} - "
            "what is to be filled has to be as long as what the members give"
        )
    for part, end in zip(parts, np.cumsum(sizes), strict=True):
        with written(part, bits=True) as target:
            target[...] = whole[end - len(target) : end]


def joined(tensors: Sequence[Any], *, bits: bool = False) -> Any:
    """One array of all their elements."""
    parts = [flat(tensor, bits=bits) for tensor in tensors]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return importlib.import_module("torch").cat(parts)


def _listed(tensors: Any) -> list[Any]:
    return tensors if isinstance(tensors, list) else [tensors]


def _root(opts: Any) -> int:
    return int(getattr(opts, "rootRank", 0))


def _operation(opts: Any) -> str:
    """Its name here.

    Raises:
        UsageMistake: there is none.
    """
    operation = getattr(opts, "reduceOp", opts)
    name = "SUM" if operation is None else str(getattr(operation, "op", operation)).rpartition(".")[2]
    if name not in OPERATIONS:
        raise UsageMistake(f"ReduceOp.{name} is none of {', '.join(OPERATIONS)}, which workers' groups have")
    return OPERATIONS[name]


@cache
def group_class(process_group: type) -> Any:
    """The class of groups: `Verbs`, and PyTorch's."""
    return type("WorkerGroup", (Verbs, process_group), {"__module__": __name__})
