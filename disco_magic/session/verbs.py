"""Disco's array verbs on references: destination passing, destination optional.

``in_group=True`` (Disco's default) works inside each group with its first worker as root, ``False`` on all
workers with worker 0 as root. All are asynchronous unless they say otherwise; a mismatch is raised at the
next `sync_*`, `get` or end of a cell.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions import builtins
from disco_magic.functions.copies import copy_of
from disco_magic.session.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.functions.context import Topology
    from disco_magic.session.dref import DRef

OPS = ("sum", "prod", "min", "max", "avg")


class ArrayVerbs(Calls):
    """Mixed into `Session`; everything here is made of its commands."""

    def empty(
        self,
        shape: Sequence[int],
        dtype: Any = "float32",
        device: str | None = None,
        *,
        worker0_only: bool = False,
        in_group: bool = True,
    ) -> DRef:
        """Uninitialised arrays.

        Args:
            shape: of every worker's array.
            dtype: anything `numpy.dtype` takes.
            device: ``"cpu"`` or None: the workers' own.
            worker0_only: only worker 0 (of each group, with `in_group`) gets one; the others hold None.
            in_group: see `worker0_only`.

        Raises:
            UsageMistake: shape, dtype or device is impossible.
        """
        if device not in (None, "cpu"):
            raise UsageMistake(
                f"empty: device {device!r} is not there; thread workers without a GPU have 'cpu'"
            )
        try:
            kind, lengths = np.dtype(dtype), tuple(operator.index(n) for n in shape)
        except TypeError as reason:
            raise UsageMistake(f"empty({shape!r}, {dtype!r}): {reason}") from None
        if any(n < 0 for n in lengths):
            raise UsageMistake(f"empty: shape {lengths} has a negative length")
        who = ("group" if in_group else "first") if worker0_only else "all"
        return self.call_packed(builtins.empty, kind, who, *lengths)

    def copy_to_worker_0(self, host: Any, remote: DRef | None = None) -> DRef:
        """Copy a host array to worker 0; the caller may change `host` as soon as this returns.

        Args:
            host: shape `s`, anything NumPy takes.
            remote: register whose array on worker 0, of shape `s` and the same dtype, takes the values.
                None makes a new register, which holds None on the other workers.

        Returns:
            `remote`, or the new register. With `remote` the call waits for worker 0 and costs one copy at
            memory speed; without, it is asynchronous and costs one copy into fresh memory.

        Raises:
            UsageMistake: `host` is no array of plain data.
            WorkerError: shape or dtype of `remote` differ; nothing was written.
        """
        array = _host_array("copy_to_worker_0", host)
        if remote is None:
            return self.store(copy_of(array), (0,))
        self.on_worker_0(builtins.copy_array, remote, array, into_register=True)
        return remote

    def copy_from_worker_0(self, host: np.ndarray[Any, Any], remote: DRef) -> None:
        """Copy worker 0's array into `host`; waits for it. One copy at memory speed.

        Raises:
            UsageMistake: `host` is no writeable NumPy array.
            WorkerError: shape or dtype differ; nothing was written.
        """
        if not isinstance(host, np.ndarray) or not host.flags.writeable:
            raise UsageMistake("copy_from_worker_0: host must be a writeable NumPy array")
        self.on_worker_0(builtins.copy_array, remote, host, into_register=False)

    def broadcast(self, array: Any, dst: DRef | None = None, *, in_group: bool = True) -> DRef:
        """Copy a host array to every worker: to the first (of each group), then through the plane."""
        src = self.store(copy_of(_host_array("broadcast", array)), _roots(self.topology, in_group=in_group))
        return self.call_packed(builtins.broadcast_from_worker0, src, dst, in_group)

    def scatter(self, array: Any, dst: DRef | None = None, *, in_group: bool = True) -> DRef:
        """Split a host array of shape `(n, *s)` over the `n` workers (of each group): each gets shape `s`.

        With `dst` only the element counts have to fit: ``array.size == n * dst.size``.

        Raises:
            UsageMistake: no destination, and the first axis is not `n` long.
        """
        host = _host_array("scatter", array)
        size = self.topology.group_size if in_group else self.topology.num_workers
        if dst is None and (host.ndim == 0 or host.shape[0] != size):
            raise UsageMistake(
                f"scatter: the array has shape {host.shape}, expected a first axis of length {size}, "
                "one part per worker; reshape it or pass a destination"
            )
        src = self.store(copy_of(host), _roots(self.topology, in_group=in_group))
        return self.call_packed(builtins.scatter_from_worker0, src, dst, in_group)

    def broadcast_from_worker0(self, src: DRef, dst: DRef | None = None, *, in_group: bool = True) -> DRef:
        """Copy the first worker's array to the others."""
        return self.call_packed(builtins.broadcast_from_worker0, src, dst, in_group)

    def scatter_from_worker0(self, src: DRef, dst: DRef | None = None, *, in_group: bool = True) -> DRef:
        """Split the first worker's array over all; see `scatter`."""
        return self.call_packed(builtins.scatter_from_worker0, src, dst, in_group)

    def gather_to_worker0(self, src: DRef, dst: DRef | None = None, *, in_group: bool = True) -> DRef:
        """Join the workers' arrays on the first worker: along axis 0, or into `dst` of as many elements."""
        return self.call_packed(builtins.gather_to_worker0, src, dst, in_group)

    def allreduce(
        self, src: DRef, dst: DRef | None = None, op: str = "sum", *, in_group: bool = True
    ) -> DRef:
        """Reduce element by element; every worker gets the result. Rules: `WorkerContext.allreduce`."""
        return self.call_packed(builtins.allreduce, src, dst, _op(op), in_group)

    def allgather(self, src: DRef, dst: DRef | None = None, *, in_group: bool = True) -> DRef:
        """Join the workers' arrays everywhere: along axis 0, or into `dst` of as many elements."""
        return self.call_packed(builtins.allgather, src, dst, in_group)

    def reduce_scatter(
        self, src: DRef, dst: DRef | None = None, op: str = "sum", *, in_group: bool = True
    ) -> DRef:
        """Reduce, then split along axis 0."""
        return self.call_packed(builtins.reduce_scatter, src, dst, _op(op), in_group)

    def alltoall(self, src: DRef, dst: DRef | None = None, *, in_group: bool = True) -> DRef:
        """Exchange parts along axis 0: part j of worker i becomes part i of worker j."""
        return self.call_packed(builtins.alltoall, src, dst, in_group)

    def barrier(self, *, in_group: bool = True) -> None:
        """Let no worker go on before all have come here; does not wait itself."""
        self.call_packed(builtins.barrier, in_group)


def _op(op: str) -> str:
    if op not in OPS:
        raise UsageMistake(f"op is {op!r}, expected one of {', '.join(OPS)}")
    return op


def _roots(topology: Topology, *, in_group: bool) -> tuple[int, ...]:
    if not in_group:
        return (0,)
    return tuple(group * topology.group_size for group in range(topology.num_groups))


def _host_array(verb: str, host: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(host)
    if array.dtype.hasobject:
        raise UsageMistake(
            f"{verb}: got {type(host).__name__}, which NumPy can only hold as objects; expected an array of "
            "numbers, or use session.put(name, value) for other objects"
        )
    return array
