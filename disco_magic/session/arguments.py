"""Reads and checks what callers name (workers, references, times) before anything is sent."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.numbers import seconds, whole_number
from disco_magic.core.topology import axes_of
from disco_magic.errors import SessionClosed, UnknownName, UsageMistake
from disco_magic.errors.mistakes import about
from disco_magic.functions.arrays import host_array
from disco_magic.functions.participants import both_said, is_grouped
from disco_magic.functions.returned import stacked
from disco_magic.phrases import class_name, no_register, no_such_part, ranges, words
from disco_magic.session.dref import GIVEN_UP, DPackedFunc, DRef
from disco_magic.values.parts import paths_in
from disco_magic.values.subscripts import has_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from disco_magic.core.interfaces import Launcher
    from disco_magic.core.topology import Axes, Topology
    from disco_magic.functions.participants import Who
    from disco_magic.session.dref import Drop

    Life = Callable[[Drop], None]


def _number(worker: object) -> int:
    """Return a worker's id; TypeError for anything but a whole number."""
    number = whole_number(worker)
    if number is None:
        raise TypeError
    return number


class Limit:
    """The total time that one call may take, over several waits; starts when it is made."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def left(self) -> float | None:
        """Seconds left, at least 0; None without a limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def __str__(self) -> str:
        return "for ever" if self.timeout_s is None else f"{self.timeout_s:g} s"


_ENDLESS: Final = Limit(None)


class Arguments:
    """The parts of a session that its callers can name.

    Attributes:
        id: number of the session in this process.
        num_workers: how many workers there are.
        mesh: where the workers are along named axes; a mesh without axes if none were given.
        closed: whether nothing can be sent any more.
        timeout: seconds that a wait without a timeout of its own may take; None: no limit. May be set at any
            time. `shutdown` has its own default.
    """

    id: int
    life: Life

    def __init__(self, topology: Topology, timeout: float | None) -> None:
        self.topology = topology
        self.num_workers = topology.num_workers
        self.num_groups = topology.num_groups
        self.group_size = topology.group_size
        self.mesh = topology.mesh
        self.timeout = timeout
        self.closed = True
        self._everybody = tuple(range(self.num_workers))

    @property
    def timeout(self) -> float | None:
        """See the class's attributes."""
        return self._timeout

    @timeout.setter
    def timeout(self, timeout: float | None) -> None:
        self._timeout = seconds(timeout)

    def patience(self, timeout: object) -> Limit:
        """Return the limit of a call that was given `timeout`; a `Limit` is what its caller has left.

        Raises:
            UsageMistake: it is not a time. ``float("inf")`` means no limit, whatever `self.timeout` is.
        """
        if timeout is None and self._timeout is None:
            return _ENDLESS
        if isinstance(timeout, Limit):
            return timeout
        return Limit(self._timeout if timeout is None else seconds(timeout))

    def _chosen(self, workers: Sequence[int] | None) -> tuple[int, ...]:
        """Return the worker ids as `check_workers` does; None: those of all workers."""
        return self._everybody if workers is None else self.check_workers(workers)

    def check_workers(self, workers: Sequence[int]) -> tuple[int, ...]:
        """Return the worker ids, ascending, each once.

        Raises:
            UsageMistake: none were given, or a number is not a worker's.
        """
        everybody = self._everybody
        if (
            type(workers) is tuple
            and len(workers) == 1
            and type(workers[0]) is int
            and workers[0] in everybody
        ):
            return workers  # the usual case, in a fifth of the time
        try:
            chosen = tuple(sorted({_number(worker) for worker in workers}))
        except TypeError:
            single = type(workers) is tuple and len(workers) == 1
            what = (
                f"a worker is a whole number, not {workers[0]!r}"
                if single
                else f"workers are given as a list of whole numbers, not as {workers!r}"
            )
        else:
            wrong = [worker for worker in chosen if not 0 <= worker < self.num_workers]
            if chosen and not wrong:
                return chosen
            what = f"there is no worker {', '.join(map(str, wrong))}" if wrong else "no worker was named"
        raise UsageMistake(f"{what}; this session has workers {ranges(self._everybody)}")

    def taking_part(self, verb: str, over: Axes | None, *, in_group: bool) -> Who:
        """Return who takes part in a command, in the form that `builtins` take.

        Raises:
            UsageMistake: `over` names no axes of the mesh, or is given together with ``in_group=False``.
        """
        grouped = is_grouped(verb, in_group)
        if over is None:
            return grouped
        if not grouped:
            raise both_said(verb, over)
        with about(verb):
            axes = axes_of(over)
            self.mesh.groups(*axes)
        return axes

    def own(self, dref: DRef) -> int:
        """Return the register of one of this session's references.

        Raises:
            UsageMistake: it belongs to another session, or its register was freed.
            SessionClosed: it was made before the session's restart.
        """
        if not isinstance(dref, DRef):
            raise UsageMistake(f"expected a DRef of session {self.id}, got {type(dref).__name__}")
        if dref.session is not self:
            raise UsageMistake(f"{dref!r} belongs to session {dref.session.id}, this is session {self.id}")
        if dref.life is GIVEN_UP:
            raise UsageMistake(f"{dref!r} has given its register to another reference; use that one")
        if dref.life is not self.life:
            raise SessionClosed(f"{dref!r} is from before the restart of session {self.id}")
        if not dref.is_alive:
            raise UsageMistake(
                f"{dref!r} was found in a circle of garbage; its register was freed before the finalizers of"
                " that were called - keep the reference elsewhere, or use it before, in a with statement"
            )
        return dref.register


def name_of(function: Any) -> str:
    """Name a function in errors: its registered name, its own name, or its register."""
    if isinstance(function, DPackedFunc):
        return function.name
    if isinstance(function, DRef):
        return f"register #{function.register}"
    return (
        function
        if isinstance(function, str)
        else str(getattr(function, "__qualname__", type(function).__name__))
    )


def own_array(verb: str, src: Any) -> NDArray[Any]:
    """Return `src`, an array of the caller's process; UsageMistake for a reference."""
    if isinstance(src, DRef):
        raise UsageMistake(
            f"{verb}: a reference is on the workers; session.{verb}_from_worker0(ref) takes it from there"
        )
    try:
        whole = stacked(src)
    except (RuntimeError, TypeError) as reason:
        raise UsageMistake(f"{verb}: PyTorch cannot stack these tensors: {words(reason)}") from None
    return host_array(verb, whole)


def check_name(verb: str, register: object) -> None:
    """Raise UsageMistake if `register` is no text."""
    if not isinstance(register, str):
        raise UsageMistake(
            f"{verb} takes the name of a register, or of a part, got {class_name(register)}; the row of a "
            "reference is its .info()"
        )


def check_there(launcher: Launcher, label: str, written: str, former: Iterable[str]) -> None:
    """Check that some worker has a register `label` with the part `written`; `former`: see `no_register`."""
    held = launcher.look(numbered=label.startswith("#"), sample=0)
    known = list(dict.fromkeys(name for each in held for name, _ in each))
    if label not in known:
        raise UnknownName(no_register(label, known, former))
    everybody = [(worker,) for worker in range(len(held))]
    if not written or any(launcher.examine(label, has_part, (written,), everybody)):
        return
    found = launcher.examine(label, partial(paths_in, label), (), everybody)
    names = dict.fromkeys(path for paths in found for path in paths or ())
    shapes = [info.shape for each in held for name, info in each if name == label and info.shape]
    hint = no_such_part(f"{label}{written}", names)
    if shapes and not names and any(launcher.examine(label, has_part, ("[...]",), everybody)):
        hint = f"numbers and slices select parts of its shape, {shapes[0]}"
    raise UnknownName(f"register {label!r} has no part {written!r} on any worker; {hint}")


def no_destination(session_id: int, given: object) -> UsageMistake:
    """What is to be raised for `given` in the place of a collective's destination, which is a reference."""
    if isinstance(given, str):
        told = f"{given!r}; a reduction is given as op={given!r}"
    else:
        told = (
            f"{class_name(given)}; to give a value a name, session.put('a', value), "
            "and %disco scatter a splits one"
        )
    return UsageMistake(f"the destination has to be a DRef of session {session_id}, got {told}")
