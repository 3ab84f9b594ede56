"""The members of a process group of PyTorch, and how one of them calls the session's collectives."""

from __future__ import annotations

import importlib
import threading
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.words import plural
from disco_magic.errors import UsageMistake
from disco_magic.functions.process_groups.arguments import (
    as_called,
    root_of,
    see_can_be_averaged,
    see_one_each,
)
from disco_magic.functions.process_groups.messages import Messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.seat import Theirs
    from disco_magic.functions.context import WorkerContext
    from disco_magic.functions.process_groups.messages import Caller

_NO_PURPOSE: Final = "undefined"  # PyTorch's word


class _Here(threading.local):
    """For the calling thread: whether PyTorch computes gradients in it, not in other threads."""

    computes: bool = False


_here: Final = _Here()


class Members(Messages):
    """What a group is: its members, its name, and who of them calls.

    Args:
        members: ids of the workers, ascending; ranks go by it.
        mine: rank of the worker that makes the group.
        name: PyTorch's name for it, with the worker's own part after an ``@``.
        caller: returns the worker that calls, raises UsageMistake if none of the session does; its `channel`
            is unique to the group. Equal for the same group on each worker.
    """

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
        return isinstance(other, Members) and self._common == other._common

    def __hash__(self) -> int:
        return hash(self._common)

    @property
    def _common(self) -> tuple[Any, ...]:
        return self._caller, self._members

    def _get_backend(self, _device: Any) -> Any:
        return self

    @property
    def options(self) -> Any:
        """What a backend was made with; PyTorch's compiler reads the timeout, which nothing here has."""
        c10d = importlib.import_module("torch.distributed.distributed_c10d")
        return SimpleNamespace(backend=self.getBackendName(), _timeout=c10d.default_pg_timeout)

    @property
    def _device_types(self) -> list[Any]:
        """Kinds of devices whose tensors the group takes."""
        kinds = dict.fromkeys([self._caller().place.device.kind, "cpu"])
        return list(map(importlib.import_module("torch").device, kinds))

    def _worker(self) -> WorkerContext:
        """The worker that calls."""
        me = self._caller()
        if me.id not in self._members:
            raise UsageMistake(
                f"worker {me.id} is not a member of the process group of {list(self._members)}"
            )
        if not _here.computes:
            # On GPUs PyTorch computes gradients in threads of its own, which cannot call collectives.
            importlib.import_module("torch").autograd.set_multithreading_enabled(False)
            _here.computes = True
        return me

    def _fits(self, verb: str, parts: Sequence[Any], given: Any) -> None:
        """Check that there is a tensor to take from each, and that what the worker gives fits its own."""
        see_one_each(verb, "output", parts, len(self._members))
        mine = self.rank()
        gives, takes = given.numel(), parts[mine].numel()
        if gives != takes:
            raise UsageMistake(
                f"{verb}: rank {mine} gives {plural(gives, 'element')}, and tensor {mine} of its list takes "
                f"{takes} - in the list, the tensor of each rank has to be as large as what that rank gives"
            )

    def _root(self, *opts: Any, **named: Any) -> int:
        """The rank of the root, or the source, from what PyTorch passes."""
        root = root_of(*opts, **named)
        if not 0 <= root < len(self._members):
            raise UsageMistake(f"{root} is not a rank of this process group of {len(self._members)} members")
        return root

    def _call(self, verb: str, *given: Any, theirs: Theirs | None = None) -> Any:
        """Call a collective of the worker, with all arguments of the plane's verb; `theirs`: see `Seat`."""
        me = self._worker()
        if given[1:2] == ("avg",):
            see_can_be_averaged(given[0])
        if given:
            theirs = as_called(verb, given[0], theirs)
        over = None if len(self._members) == me.num_workers else list(self._members)
        # Not the verb: by the tag, groups of the same members do not meet each other.
        return me._call(  # noqa: SLF001 - ours
            verb,
            *given,
            in_group=over is not None,
            over=over,
            along=self._words,
            tag=self._channel or 0,
            theirs=theirs,
        )

    @cached_property  # read by the first call: PyTorch says last what a new group is for
    def _words(self) -> str:
        """The group in messages: ``group 2``, ``group 3 (mesh_tp)``; "" for the first group of all."""
        purpose = getattr(self, "group_desc", None)
        told = "" if purpose in (None, "", _NO_PURPOSE) else f" ({purpose})"
        return f"group {self._channel}{told}" if self._channel else ""
