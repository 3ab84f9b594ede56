"""Disco's array verbs on references: destination passing, destination optional.

``in_group=True`` (Disco's default) works inside each group with its first worker as root, ``False`` on all
workers with worker 0 as root. Below, `n` workers take part, and the *first worker* is the root.

The controller calls them; unless they say otherwise they do not wait. Impossible arguments raise UsageMistake
at once, and nothing is sent. What the workers find wrong is raised as a WorkerError by the next `sync_*`,
`get` or end of a cell. Its origin is a PlaneMismatch if the arrays do not fit together or into `dst`, a
UsageMistake if a register holds no array that can be moved. Nothing is written then, but for one case:
scatter, gather and allgather find out about a `dst` of another dtype after the move, and fail on its worker
alone.

Collectives return a new register; with `dst`, a reference, it holds the very array of `dst`. Small arrays
cost the waking of the workers, 20-40 us each (2 cores); big ones what the verb says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake
from disco_magic.functions import builtins
from disco_magic.functions.arrays import host_array, host_target
from disco_magic.functions.copies import copy_of
from disco_magic.functions.places import check_there
from disco_magic.functions.shapes import check_shape, lengths_of
from disco_magic.loader.dtypes import dtype_of
from disco_magic.planes.reductions import check_op
from disco_magic.session.arguments import own_array
from disco_magic.session.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.session.dref import DRef


class ArrayVerbs(Calls):
    """Mixed into `Session`; everything here is made of its commands."""

    def empty(
        self,
        shape: int | Sequence[int],
        dtype: Any = "float32",
        device: object = None,
        worker0_only: bool = False,  # noqa: FBT001, FBT002 - Disco's own signature
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
    ) -> DRef:
        """Uninitialised arrays.

        Args:
            shape: of every worker's array; a number for one axis.
            dtype: anything `numpy.dtype` takes; ``"bfloat16"`` and the like are found in `ml_dtypes`.
            device: its name, a Device or TVM's, ``"cpu"`` or the workers' GPU; None: the workers' own.
            worker0_only: only worker 0 (of each group, with `in_group`) gets one; the others hold None.
            in_group: see `worker0_only`.

        Returns:
            A new register. The memory is only reserved: whoever writes it first pays for its pages.

        Raises:
            UsageMistake: shape, dtype or device is impossible.
            MissingDependency: the dtype needs `ml_dtypes`.
        """
        asked = None
        if device is not None:
            asked = check_there("empty", device, self._places())
        try:
            kind = dtype_of(dtype, "empty")
            lengths = lengths_of(shape)
        except TypeError as reason:
            raise UsageMistake(f"empty({shape!r}, {dtype!r}): {reason}") from None
        check_shape("empty", lengths, kind)
        return self.call_packed(builtins.empty, lengths, kind, asked, worker0_only, in_group)

    def copy_to_worker_0(
        self, host: Any, remote: DRef | None = None, *, timeout: float | None = None
    ) -> DRef:
        """Copy a host array to worker 0; the caller may change `host` as soon as this returns.

        Args:
            host: shape `s`, anything NumPy takes.
            remote: register whose array on worker 0, of shape `s` and the same dtype, takes the values.
                None makes a new register, which holds None on the other workers.
            timeout: seconds to wait at most; None: `self.timeout`.

        Returns:
            `remote`, or the new register. With `remote` the call waits for worker 0 and costs one copy at
            memory speed; without, it is asynchronous and costs one copy into fresh memory.

        Raises:
            UsageMistake: `host` is no array of plain data.
            WorkerError: shape or dtype of `remote` differ; nothing was written.
            SyncTimeout: worker 0 did not come to it in time; it will read `host` when it does.
        """
        array = host_array("copy_to_worker_0", host)
        if remote is None:
            return self.store(copy_of(array), (0,))
        self.on_worker_0(builtins.copy_array, remote, array, timeout, into_register=True)
        return remote

    def copy_from_worker_0(self, host: Any, remote: DRef, *, timeout: float | None = None) -> None:
        """Copy worker 0's array into `host`; waits for it. One copy at memory speed.

        Args:
            host: an array of NumPy, or another library's tensor on the CPU, taken through DLPack.
            remote: register whose array on worker 0 has its shape and dtype.
            timeout: seconds to wait at most; None: `self.timeout`.

        Raises:
            UsageMistake: `host` is none that could be written.
            WorkerError: shape or dtype differ; nothing was written.
            SyncTimeout: worker 0 did not come to it within `timeout` seconds, None: `self.timeout`; it will
                still write `host` when it does.
        """
        array = host_target("copy_from_worker_0", host)
        self.on_worker_0(builtins.copy_array, remote, array, timeout, into_register=False)

    def broadcast(
        self,
        src: Any,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
    ) -> DRef:
        """Copy a host array to every worker; the caller may change `src` as soon as this returns.

        Args:
            src: shape `s`, anything NumPy takes that holds no Python objects.
            dst: register with an array of shape `s` and the same dtype on every worker that takes the values.
            in_group: through the first worker of each group, or through worker 0.

        Returns:
            Register of shape `s`, exact copies, one per worker.

        Raises:
            UsageMistake: `src` is no array of plain data; nothing was sent.

        Cost: one copy here, one per first worker, then `broadcast_from_worker0`.
        """
        host = own_array("broadcast", src)
        self.check_destination(dst)
        whole = self.store(copy_of(host), self.topology.roots(in_group=in_group))
        return self.broadcast_from_worker0(whole, dst, in_group)

    def scatter(
        self,
        src: Any,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
    ) -> DRef:
        """Split a host array over the workers; the caller may change `src` as soon as this returns.

        Args:
            src: shape `(n, *s)`, anything NumPy takes that holds no Python objects.
            dst: register whose arrays, of `src`'s dtype and any shape with ``n * dst.size == src.size``,
                take the parts in C order.
            in_group: the whole array to each group, or once over all workers.

        Returns:
            Register of shape `s` without `dst`: the first axis is used up. Exact copies.

        Raises:
            UsageMistake: no array of plain data; or no `dst`, and the first axis is not `n` long.

        Cost: one copy here, one per first worker, then `scatter_from_worker0`.
        """
        host = own_array("scatter", src)
        size = self.topology.group_size if in_group else self.topology.num_workers
        if dst is None and (host.ndim == 0 or host.shape[0] != size):
            raise UsageMistake(
                f"scatter: the array has shape {host.shape}, expected a first axis of length {size}, "
                "one part per worker; reshape it or pass a destination"
            )
        self.check_destination(dst)
        whole = self.store(copy_of(host), self.topology.roots(in_group=in_group))
        return self.scatter_from_worker0(whole, dst, in_group)

    def broadcast_from_worker0(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
    ) -> DRef:
        """Copy the first worker's array, shape `s`, to all; `src` of the others is not looked at.

        With `dst`, its arrays have shape `s` and the dtype of `src`. Exact. Cost: `src` is read once and
        written once per worker.
        """
        self.check_destination(dst)
        return self.call_packed(builtins.broadcast_from_worker0, src, in_group, dst)

    def scatter_from_worker0(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
    ) -> DRef:
        """Split the first worker's array, shape `(n, *s)`, over all; `src` of the others is not looked at.

        Each gets shape `s`, or `dst` filled as in `scatter`. Exact. Cost: each element is read and written
        once; `dst` costs one more copy of a part on every worker, no `dst` one more small broadcast (of `s`).
        """
        self.check_destination(dst)
        return self.call_packed(builtins.scatter_from_worker0, src, in_group, dst, dst is not None)

    def gather_to_worker0(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
    ) -> DRef:
        """Join the workers' arrays on the first worker, in the order of their ids.

        Shapes `(k_i, *s)` of one dtype give `(sum(k_i), *s)`, arrays of no axes give `(n,)`; the others get
        None. With `dst`, which only the first worker needs, arrays of one size fill its array of any shape of
        ``n * src.size`` elements in C order, and the others get what `dst` holds there. Exact. Cost: each
        element is read and written once; `dst` costs one more copy of the whole.
        """
        self.check_destination(dst)
        return self.call_packed(builtins.gather_to_worker0, src, in_group, dst, dst is not None)

    def allreduce(
        self,
        src: DRef,
        dst: DRef | None = None,
        op: str = "sum",
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
    ) -> DRef:
        """Reduce arrays of one shape `s` and dtype element by element; every worker gets the result.

        `op` is one of ``sum prod min max avg``; precision: `WorkerContext.allreduce`. `dst` has shape `s` and
        the result's dtype, and may be `src`. Raises UsageMistake for another `op`; nothing was sent.
        Cost: each element of every worker's array is read once, each of the result written once per worker.

        Example:
            >>> x = session.scatter(np.arange(8).reshape(4, 2))
            >>> session.allreduce(x, op="max").get(0)
            array([6, 7])
        """
        op = check_op("allreduce", op)
        self.check_destination(dst)
        return self.call_packed(builtins.allreduce, src, op, in_group, dst)

    def allgather(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
    ) -> DRef:
        """Join the workers' arrays on all of them, in the order of their ids.

        Shapes and `dst` as in `gather_to_worker0`; `dst` holds an array on every worker. Exact. Cost: each
        element is read once and written once per worker; `dst` costs one more copy of the whole.
        """
        self.check_destination(dst)
        return self.call_packed(builtins.allgather, src, in_group, dst, dst is not None)

    def reduce_scatter(
        self,
        src: DRef,
        dst: DRef | None = None,
        op: str = "sum",
        in_group: bool = True,  # noqa: FBT001, FBT002 - the order of Disco's allreduce
    ) -> DRef:
        """Reduce as `allreduce`, then split along axis 0: shape `(n * k, *s)` gives `(k, *s)`.

        `dst` has that shape and the result's dtype. Raises UsageMistake for another `op`; nothing was sent.
        Cost: each element of every worker's array is read once, each of the result written once.
        """
        op = check_op("reduce_scatter", op)
        self.check_destination(dst)
        return self.call_packed(builtins.reduce_scatter, src, op, in_group, dst)

    def alltoall(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - the order of Disco's allgather
    ) -> DRef:
        """Exchange parts along axis 0: part j of worker i becomes part i of worker j.

        All arrays have one dtype and one shape `(n * k, *s)`, which is also that of the result and of `dst`.
        Exact. Cost: each element is read and written once.
        """
        self.check_destination(dst)
        return self.call_packed(builtins.alltoall, src, in_group, dst)

    def barrier(self, *, in_group: bool = True) -> None:
        """Let no worker go on before all have come here; the controller does not wait."""
        self.call_packed(builtins.barrier, in_group)
