"""Disco's verbs for arrays that come from the host or go there; `verbs` has those on references.

Called by the controller. Impossible arguments raise UsageMistake at once, and nothing is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.core.numbers import truth
from disco_magic.errors import UsageMistake, is_told
from disco_magic.functions import builtins
from disco_magic.functions.arrays import host_array, host_target
from disco_magic.functions.copies import copy_of
from disco_magic.functions.participants import who
from disco_magic.functions.places import check_there
from disco_magic.functions.returned import library_in
from disco_magic.functions.shapes import check_shape, lengths_of
from disco_magic.loader.dtypes import dtype_of
from disco_magic.session.arguments import own_array
from disco_magic.session.verbs import ArrayVerbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.topology import Axes
    from disco_magic.session.dref import DRef

__tracebackhide__ = is_told


class HostArrays(ArrayVerbs):
    """Mixin of `Session`, built from its commands."""

    def empty(
        self,
        shape: int | Sequence[int],
        dtype: Any = "float32",
        device: object = None,
        worker0_only: bool = False,  # noqa: FBT001, FBT002 - Disco's own signature
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
        *,
        over: Axes | None = None,
    ) -> DRef:
        """Make uninitialised arrays.

        Args:
            shape: of every worker's array; a number for one axis.
            dtype: anything `numpy.dtype` takes; ``"bfloat16"`` and the like are found in `ml_dtypes`.
            device: its name, a Device or TVM's, ``"cpu"`` or the workers' GPU; None: the workers' own.
            worker0_only: only worker 0 (of each group, with `in_group`) gets one; the others hold None.
            in_group: see `worker0_only`.
            over: with `worker0_only`, the first worker along these axes of the mesh gets one.

        Returns:
            A new register. The memory is only reserved: the first write to it pays for its pages.

        Raises:
            UsageMistake: shape, dtype or device is impossible.
            MissingDependency: the dtype needs `ml_dtypes`.

        Example:
            >>> buffer = session.empty((2, 3), "int64")
            >>> session.broadcast(np.arange(6).reshape(2, 3), dst=buffer).get(3)
            array([[0, 1, 2],
                   [3, 4, 5]])
        """
        asked = None
        worker0_only = truth("empty", "worker0_only", worker0_only)
        members = self.taking_part("empty", over, in_group=in_group)
        if device is not None:
            asked = check_there("empty", device, self._places())
        try:
            kind = dtype_of(dtype, "empty")
            lengths = lengths_of(shape)
        except TypeError as reason:
            raise UsageMistake(f"empty({shape!r}, {dtype!r}): {reason}") from None
        check_shape("empty", lengths, kind)
        return self.call_packed(builtins.empty, lengths, kind, asked, worker0_only, members)

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
            WorkerError: `remote` differs in shape or dtype; nothing was written.
            SyncTimeout: worker 0 did not get to it in time; it will read `host` when it does.

        Example:
            >>> session.copy_to_worker_0(np.arange(3)).get_all()
            [array([0, 1, 2]), None, None, None]
        """
        array = host_array("copy_to_worker_0", host)
        if remote is None:
            return self.store(copy_of(array), (0,))
        self.on_worker_0(builtins.copy_array, remote, array, timeout, into_register=True)
        return remote

    def copy_from_worker_0(self, host: Any, remote: DRef, *, timeout: float | None = None) -> None:
        """Copy worker 0's array into `host` and wait for it. One copy at memory speed.

        Args:
            host: a NumPy array, or another library's tensor on the CPU, accessed through DLPack.
            remote: register whose array on worker 0 has its shape and dtype.
            timeout: seconds to wait at most; None: `self.timeout`.

        Raises:
            UsageMistake: `host` cannot be written.
            WorkerError: shape or dtype differ; nothing was written.
            SyncTimeout: worker 0 did not get to it within `timeout` seconds, None: `self.timeout`; it will
                still write `host` when it does.

        Example:
            >>> host = np.zeros(2)
            >>> session.copy_from_worker_0(host, session.broadcast(np.array([1.0, 2.0])))
            >>> host
            array([1., 2.])
        """
        array = host_target("copy_from_worker_0", host)
        self.on_worker_0(builtins.copy_array, remote, array, timeout, into_register=False)

    def broadcast(
        self,
        src: Any,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
        *,
        over: Axes | None = None,
    ) -> DRef:
        """Copy a host array to every worker; the caller may change `src` as soon as this returns.

        Args:
            src: shape `s`, anything NumPy takes that holds no Python objects.
            dst: register with an array of shape `s` and the same dtype on every worker, which is filled.
            in_group: send through the first worker of each group, or through worker 0.
            over: send through the first worker along these axes.

        Returns:
            Register of shape `s`, or `dst`: exact copies on each worker's own device. Without `dst`, tensors
            if `src` is a tensor or a list of them, arrays of JAX if it is one.

        Raises:
            UsageMistake: `src` is not an array of plain data; nothing was sent.

        Cost: one copy here, one per first worker, then `broadcast_from_worker0`.

        Example:
            >>> session.broadcast(np.arange(3)).get(2)
            array([0, 1, 2])
        """
        host = own_array("broadcast", src)
        members = self.taking_part("broadcast", over, in_group=in_group)
        self.check_destination(dst)
        whole = self.store(copy_of(host), self.topology.roots(**who(members)))
        return self._as_brought(src, self.broadcast_from_worker0(whole, dst, in_group, over=over), dst)

    def scatter(
        self,
        src: Any,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
        *,
        over: Axes | None = None,
    ) -> DRef:
        """Split a host array over the workers; the caller may change `src` as soon as this returns.

        Args:
            src: shape `(n, *s)`, anything NumPy takes that holds no Python objects.
            dst: register whose arrays, of `src`'s dtype and any shape with ``n * dst.size == src.size``,
                are filled with the parts in C order.
            in_group: split the whole array in each group, or once over all workers.
            over: split the whole array among those that differ only along these axes.

        Returns:
            Register of shape `s` without `dst`: the first axis is used up. Exact copies; their type follows
            `src` as in `broadcast`.

        Raises:
            UsageMistake: not an array of plain data; or no `dst`, and the first axis is not `n` long.

        Cost: one copy here, one per first worker, then `scatter_from_worker0`.

        Example:
            >>> session.scatter(np.arange(8).reshape(4, 2)).get(2)
            array([4, 5])
        """
        host = own_array("scatter", src)
        members = self.taking_part("scatter", over, in_group=in_group)
        size = self.topology.part_size(**who(members))
        if dst is None and (host.ndim == 0 or host.shape[0] != size):
            raise UsageMistake(
                f"scatter: the array has shape {host.shape}, expected a first axis of length {size}, "
                "one part per worker; reshape it or pass a destination"
            )
        self.check_destination(dst)
        whole = self.store(copy_of(host), self.topology.roots(**who(members)))
        return self._as_brought(src, self.scatter_from_worker0(whole, dst, in_group, over=over), dst)

    def _as_brought(self, src: Any, made: DRef, dst: DRef | None) -> DRef:
        """Return `made` converted to the library of `src`; with `dst`, unchanged."""
        library = library_in(src) if dst is None else ""
        return self.call_packed(builtins.as_library, made, library) if library else made
