"""The ShardLoader: worker 0 reads parameters one by one, cuts them up, and distributes the parts.

Memory: a parameter without shard functions is read into the array that worker 0 keeps, and broadcast from
there. For one with functions, worker 0 holds the last one's output besides its part. The input of a function
is a private map of the file. Where that is not possible (bfloat16 to be widened, odd offsets, the output of
the function before), it is in memory if both together take no more than the largest parameter's output, else
in a temporary file, which the kernel can write out. So the load's peak is one parameter. Nothing of it is
left when the next one begins.
"""

from __future__ import annotations

import math
import mmap
import os
import re
import tempfile
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.numbers import whole_number
from disco_magic.errors import DiscoError, UsageMistake
from disco_magic.functions.aligned import ALIGNMENT, aligned_empty, new_array
from disco_magic.functions.context import worker
from disco_magic.loader.shard_info import read_shard_info
from disco_magic.loader.tensor_cache import open_tensor_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.loader.shard_info import Step
    from disco_magic.loader.stored import Array, Catalogue, StoredTensor

    Make = Callable[[tuple[int, ...], Any], Array]

_PART: Final = re.compile(r"(?P<name>.+)_shard-(?P<part>\d{1,9})-of-(?P<count>\d{1,9})")
_NUMBERED: Final = re.compile(r"param_(\d{1,9})")


def make_loader(path: str, metadata: str, shard_info: str, module: Any, *, check_md5: bool) -> ShardLoader:
    """Make a loader for the calling worker; arguments as for `disco_functions.shard_loader`."""
    catalogue = open_tensor_cache(path, metadata)
    steps = read_shard_info(shard_info or "", module, parameter_names(catalogue), worker().group_size)
    return ShardLoader(catalogue, steps, check_md5=check_md5)


class ShardLoader:
    """Loads the parameters of one folder; held in a register of every worker."""

    def __init__(self, catalogue: Catalogue, steps: Mapping[str, Sequence[Step]], *, check_md5: bool) -> None:
        self.catalogue = catalogue
        self._listed = tuple(catalogue.tensors.values())
        self._steps = steps
        self._most_nbytes = max((each[-1].nbytes for each in steps.values() if each), default=0)
        self._unchecked = {file.path for file in catalogue.files if check_md5 and file.md5}

    def __repr__(self) -> str:
        return f"<ShardLoader of {len(self._listed)} parameters in {self.catalogue.path}>"

    def load(self, index: int) -> Array:
        """Return the caller's part of the `index`-th parameter of the list."""
        return _moved_in(self._hand_out(_at(self._listed, index)))

    def load_all(self) -> list[Array]:
        """Return the caller's parts of all parameters, by number."""
        return [_moved_in(self._hand_out(tensor)) for tensor in self._by_number()]

    def load_presharded(self, index: int) -> Array:
        """Return the `index`-th of the parameters that were cut for the caller beforehand."""
        return _moved_in(self._read(_at(list(self._mine().values()), index)))

    def load_all_presharded(self) -> list[Array]:
        """Return all parameters that were cut for the caller beforehand, by number."""
        return [_moved_in(self._read(tensor)) for tensor in _ordered(self._mine())]

    def load_on_worker_0(self, index: int) -> Array:
        """Return parameter number `index` on the first worker; elsewhere uninitialised memory of its size."""
        tensor = _at(self._by_number(), index)
        if worker().group_rank == 0:
            return _moved_in(self._read(tensor))
        return _moved_in(new_array(tensor.shape, tensor.dtype))

    # --- one parameter -----------------------------------------------------------------------------

    def _hand_out(self, tensor: StoredTensor) -> Array:
        me, steps = worker(), self._steps.get(tensor.name)
        if not steps:
            whole = self._read(tensor) if me.group_rank == 0 else None
            return np.asarray(me.broadcast(whole, out=whole))
        out: Array = new_array(steps[-1].shape[1:], steps[-1].dtype)
        flat = None
        if me.group_rank == 0:
            flat = self._cut(tensor, steps).reshape(me.group_size, out.size)
        me.scatter(flat, out=out.reshape(1, out.size))
        # A member that has not woken yet keeps the whole parameter alive: the next one must not begin yet.
        me.barrier()
        return out

    def _cut(self, tensor: StoredTensor, steps: Sequence[Step]) -> Array:
        last = steps[-1]
        make = aligned_empty if _held_nbytes(tensor, steps) <= self._most_nbytes else spilled
        whole = self._as_input(tensor, make)
        for step in steps[:-1]:
            whole = step.apply(whole, make(step.shape, step.dtype))
        return last.apply(whole, aligned_empty(last.shape, last.dtype))

    def _as_input(self, tensor: StoredTensor, make: Make) -> Array:
        """Return the whole parameter as a function's input; writes to it do not reach the file."""
        self._check(tensor)
        if _is_copied(tensor):
            return tensor.read(make(tensor.shape, tensor.dtype))
        return tensor.elements().view(tensor.dtype).reshape(tensor.shape)

    def _read(self, tensor: StoredTensor) -> Array:
        self._check(tensor)
        return tensor.read()

    def _check(self, tensor: StoredTensor) -> None:
        if tensor.file.path in self._unchecked:
            for _ in tensor.file.hashed():
                pass
            self._unchecked.discard(tensor.file.path)

    # --- choosing ----------------------------------------------------------------------------------

    def _by_number(self) -> list[StoredTensor]:
        return _ordered({tensor.name: tensor for tensor in self._listed})

    def _mine(self) -> dict[str, StoredTensor]:
        """Map original names to the parameters that were cut for the calling worker."""
        me = worker()
        mine: dict[str, StoredTensor] = {}
        names: dict[str, None] = {}
        for tensor in self._listed:
            found = _PART.fullmatch(tensor.name)
            if found is None or int(found["count"]) != me.group_size:
                raise UsageMistake(
                    f"the parameter {tensor.name!r} was not cut for {me.group_size} workers, expected a name "
                    f"like <name>_shard-1-of-{me.group_size}; cut the model for as many workers as load it, "
                    "or load whole parameters with ShardLoaderLoadAll"
                )
            names[found["name"]] = None
            if int(found["part"]) == me.group_rank + 1:
                mine[found["name"]] = tensor
        missing = [name for name in names if name not in mine]
        if missing:
            raise UsageMistake(
                f"part {me.group_rank + 1} of {me.group_size} is missing of {len(missing)} parameters: "
                f"{', '.join(missing)}"
            )
        return mine


def _is_copied(tensor: StoredTensor) -> bool:
    """Whether a function cannot use a map of the file as its input directly."""
    return tensor.halved or tensor.offset % ALIGNMENT != 0


def _held_nbytes(tensor: StoredTensor, steps: Sequence[Step]) -> int:
    """Return the most that input and output of one function take together, if both are in memory."""
    held = [tensor.part_nbytes(None, 1) if _is_copied(tensor) else 0, *(step.nbytes for step in steps)]
    return max(map(sum, pairwise(held)))


def parameter_names(catalogue: Catalogue) -> list[str]:
    """Return the names of all parameters; of those cut beforehand, the original name, too."""
    found = [_PART.fullmatch(name) for name in catalogue.tensors]
    return [*catalogue.tensors, *(part["name"] for part in found if part)]


def _moved_in(array: Array) -> Array:
    """Move an array to where the calling worker computes; until then everything is on the host."""
    mine: Array = worker().place.move_in(array)
    return mine


def _ordered(tensors: Mapping[str, StoredTensor]) -> list[StoredTensor]:
    """Order parameters by number, if they are named that way; else as they are listed."""
    numbers = {int(found[1]): tensors[name] for name in tensors if (found := _NUMBERED.fullmatch(name))}
    if not numbers:
        return list(tensors.values())
    missing = [f"param_{number}" for number in range(len(tensors)) if number not in numbers]
    if missing:
        raise UsageMistake(
            f"there are {len(tensors)} parameters, but none is named {', '.join(missing)}; "
            "to load all of them they must be numbered without a gap"
        )
    return [numbers[number] for number in range(len(tensors))]


def _at(listed: Sequence[StoredTensor], index: Any) -> StoredTensor:
    number = _number(index)
    if not 0 <= number < len(listed):
        raise UsageMistake(f"there is no parameter {number}; there are {len(listed)}, counted from 0")
    return listed[number]


def _number(index: Any) -> int:
    """Read an index; Disco passes it as a shape of one axis."""
    if isinstance(index, tuple | list) and len(index) == 1:
        index = index[0]
    number = whole_number(index)
    if number is None:
        raise UsageMistake(f"a parameter's index is {index!r}, expected a whole number")
    return number


ROOMY: Final = "/var/tmp"  # noqa: S108 - the file has no name there that could be guessed


def spilled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make an array of zeros in a temporary file, which is deleted with the array.

    The file is in the folder that TMPDIR names, else in /var/tmp: /tmp is often itself in memory. An array of
    4 KiB takes 0.14 ms, one of 1 MiB 0.8.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if not nbytes:
        return np.empty(shape, dtype)
    # `tempfile` would read TMPDIR only once, and silently use another folder if that does not exist.
    folder = os.environ.get("TMPDIR") or (ROOMY if os.access(ROOMY, os.W_OK) else tempfile.gettempdir())
    try:
        with tempfile.TemporaryFile(prefix="disco-magic-", dir=folder, buffering=0) as file:
            _reserve(file.fileno(), nbytes)
            pages = mmap.mmap(file.fileno(), nbytes)
    except OSError as reason:
        raise DiscoError(
            f"a temporary file of {nbytes} bytes cannot be written in {folder}: {reason.strerror}; the "
            "environment variable TMPDIR names the folder"
        ) from None
    return np.frombuffer(pages, np.uint8).view(dtype).reshape(shape)


def _reserve(descriptor: int, nbytes: int) -> None:
    """Reserve the space now: writing to a map of a file on a full disk ends the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, nbytes)
        return
    zeros = bytes(min(nbytes, 2**20))
    while nbytes:
        nbytes -= os.write(descriptor, zeros[:nbytes])
