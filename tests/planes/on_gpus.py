"""A plane on GPUs behind the calls of one on the host: arrays of NumPy go there and come back."""

from __future__ import annotations

import threading
from functools import partialmethod

import numpy as np

from disco_magic.devices.gpu import GpuPlace


def places(cupy, devices):
    """One place per worker, on these devices."""
    return [GpuPlace(cupy, device) for device in devices]


def lacks_in_nccl(verb, x, arguments):
    """What NCCL refuses, or rounds in another way than NumPy."""
    if "reduce" not in verb:
        return False
    kind, op = x.dtype.kind, arguments[0]
    if x.dtype.name in ("int16", "uint16", "float16") or (kind == "f" and op == "avg"):
        return True  # refused, or rounded in another way
    return kind == "c" and op != "sum"


class OnGpus:
    """What the conformance checks see of a `plane` whose workers are at `places`.

    `lacks(verb, x, arguments)` says what the plane does not carry as NumPy does; that stays on the host.
    """

    def __init__(self, plane, places, lacks=lambda verb, x, arguments: False):
        self._plane = plane
        self._places = places
        self._lacks = lacks
        self._here = threading.local()
        self.carried = 0

    def __getattr__(self, name):
        return getattr(self._plane, name)

    def _enter(self, seat):
        place = self._places[seat.worker]
        if getattr(self._here, "place", None) is not place:
            place.enter()
            self._here.place = place
        return place

    def _call(self, verb, seat, x, *arguments):
        place = self._enter(seat)
        *others, out = arguments
        if isinstance(x, np.ndarray) and self._lacks(verb, x, others):
            return getattr(self._plane, verb)(seat, x, *arguments)
        there = self._to(place, x)
        target = self._to(place, out)
        result = getattr(self._plane, verb)(seat, there, *others, target)
        return self._back(place, result, out, target)

    def _to(self, place, x):
        if not isinstance(x, np.ndarray) or isinstance(x, np.ma.MaskedArray) or not place._can_hold(x.dtype):
            return x
        self.carried += 1
        there = place.xp.empty(x.shape, x.dtype)
        if x.size and not x.flags.c_contiguous:  # as far from contiguous there as it is here
            there = place.xp.empty((*x.shape[:-1], 2 * x.shape[-1]) if x.ndim else (), x.dtype)
            there = there[..., ::2] if x.ndim else there
        place.copy(there, x)
        return there

    def _back(self, place, result, out, target):
        if target is not None and target is not out:
            if result is not target:
                return result
            place.copy(out, target)
            return out
        return place.take(result)

    allreduce = partialmethod(_call, "allreduce")
    reduce = partialmethod(_call, "reduce")
    allgather = partialmethod(_call, "allgather")
    gather = partialmethod(_call, "gather")
    reduce_scatter = partialmethod(_call, "reduce_scatter")
    broadcast = partialmethod(_call, "broadcast")
    scatter = partialmethod(_call, "scatter")
    alltoall = partialmethod(_call, "alltoall")

    def barrier(self, seat):
        self._enter(seat)
        self._plane.barrier(seat)

    def send(self, seat, x, to):
        place = self._enter(seat)
        return self._plane.send(seat, self._to(place, x), to)

    def recv(self, seat, source, out):
        place = self._enter(seat)
        target = self._to(place, out)
        return self._back(place, self._plane.recv(seat, source, target), out, target)
