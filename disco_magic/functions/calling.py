"""How a worker calls its plane: with which members, from which line, in which command; kept in its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from disco_magic.callers.sites import runtime_file, site_of
from disco_magic.core.seat import Seat, hopes
from disco_magic.errors import PlaneError, UsageMistake
from disco_magic.errors.mistakes import about
from disco_magic.functions.arrays import taken
from disco_magic.functions.facts import as_theirs, facts_of
from disco_magic.functions.participants import both_said, is_grouped
from disco_magic.functions.returned import as_sent
from disco_magic.phrases import class_name, words
from disco_magic.recorder import Recorder
from disco_magic.values.tensors import filled, read_out

if TYPE_CHECKING:
    from disco_magic.core.interfaces import Plane
    from disco_magic.core.place import Place
    from disco_magic.core.seat import Spot, Theirs
    from disco_magic.core.topology import Members, Over, Topology

_NOBODY: Final = ()
_BETWEEN_TWO: Final = frozenset({"send", "recv", "deliver", "probe"})
_WITHOUT_ARRAY: Final = frozenset({"recv", "deliver", "probe"})
_WITHOUT_OUT: Final = frozenset({"send", "deliver", "probe"})
_FROM_ANOTHER: Final = frozenset({"broadcast", "scatter", "recv"})


def _broken(reason: BaseException, spot: Spot) -> str:
    """Describe a call that failed in the plane, and where; "" if it ended with any other error."""
    if not issubclass(type(reason), PlaneError):
        return ""
    first = words(reason).partition("\n")[0]
    return f"{class_name(reason)} at {site_of(spot)}, and went on: {first}"


def _came_before(reason: BaseException) -> bool:
    """Whether it is no error of the plane, from before the call had joined: no memory, too deep a stack."""
    return issubclass(type(reason), Exception) and not issubclass(type(reason), PlaneError)


class Guard(Protocol):
    """The worker's part in a plane call: it says which command runs, and keeps injections out meanwhile."""

    def enter(self) -> tuple[int, tuple[int, ...] | None]:
        """Begin a plane call; return the command's sequence number, and its workers (None: all)."""

    def leave(self) -> None:
        """End the call; raise WorkerInterrupt if the command was interrupted meanwhile."""

    def at(self) -> int | None:
        """The number of the command that is executed; None if there is none. From any thread."""


class Calling:
    """One worker and its plane; the verbs are in `Collectives` and `PointToPoint`.

    Attributes:
        id: the worker's number.
        place: where its arrays are and its work is queued.
        num_workers, num_groups, group_size, group, group_rank: see `WorkerContext`.
        mesh: the session's mesh.
        recorder: what it did and when.
    """

    _beside: ClassVar[tuple[str, ...]]
    """The files of the verbs that are composed of other verbs."""

    def __init__(self, worker: int, topology: Topology, plane: Plane, guard: Guard, place: Place) -> None:
        self.id = worker
        self.place = place
        self.num_workers = topology.num_workers
        self.num_groups = topology.num_groups
        self.group_size = topology.group_size
        self.group = worker // topology.group_size
        self.group_rank = worker % topology.group_size
        self._plane = plane
        self._guard = guard
        self._arrays: type = place.xp.ndarray
        self._group_members = topology.members(self.group)
        self._everybody = tuple(range(topology.num_workers))
        self._topology = topology
        self._parts: dict[Any, tuple[Members, str]] = {}  # by axes: members, in words
        self.mesh = topology.mesh
        self.recorder = Recorder()

    @property
    def command(self) -> int | None:
        """The number of the command that the worker's thread is at; None: at none. From any thread."""
        return self._guard.at()

    def waits_for_me(self, other: int) -> Any:
        """The plane's `Wait` that worker `other` is in, if that waits for this one, be it through others.

        Else None, also if another one could end a wait. From any thread.
        """
        waiting = self._plane.waiting
        first, reached, ahead = waiting.get(other), set[int](), [other]
        while ahead and self.id not in reached:
            wait = waiting.get(ahead.pop())
            ways = [] if wait is None else hopes(wait, self._plane.left)
            if wait is not None and (wait.ends or (wait.any_suffices and len(ways) > 1)):
                ways = []
            further = {*ways} - reached
            reached |= further
            ahead += further
        return first if self.id in reached else None

    @property
    def coordinates(self) -> dict[str, int]:
        """Axis -> where the worker is along it, from 0; a new dictionary."""
        return self.mesh.coordinates(self.id) if self.mesh else {}

    def _over(self, verb: str, over: Over | None, *, in_group: bool) -> tuple[Members, str]:
        """The members, and `over` in words."""
        in_group = is_grouped(verb, in_group)
        if over is None:
            return self._group_members if in_group else self._everybody, ""
        if not in_group:
            raise both_said(verb, over)
        key: Any = tuple(over) if type(over) is list else over
        try:
            return self._parts[key]
        except (KeyError, TypeError):  # new, or an array
            pass
        with about(verb):
            found = self._topology.with_worker(self.id, over)
        # Not for ids: some are equal that are no whole numbers, (0, 3) and (False, 3).
        if isinstance(key, str) or (isinstance(key, tuple) and isinstance(key[0], str)):
            self._parts[key] = found
        return found

    def rank(self, *, in_group: bool = True, over: Over | None = None) -> int:
        """The worker's position among `members`: what `root` counts; parts are joined in this order.

        Example:
            >>> meshed = disco.ThreadedSession(mesh={"dp": 2, "tp": 2})
            >>> meshed.run("worker.rank(over='tp'), worker.coordinates").values[2:]
            [(0, {'dp': 1, 'tp': 0}), (1, {'dp': 1, 'tp': 1})]
            >>> meshed.shutdown()
        """
        return self._over("rank", over, in_group=in_group)[0].index(self.id)

    def members(self, *, in_group: bool = True, over: Over | None = None) -> Members:
        """Ids of the workers that take part in a call with these arguments, ascending; ranks go by it.

        Raises:
            UsageMistake: `over` names no axes of the mesh, or no workers that include this one.

        Example:
            >>> grid = disco.ThreadedSession(mesh={"dp": 2, "tp": 2})
            >>> grid.run("worker.members(over='dp')")
            [0,2] (0, 2)
            [1,3] (1, 3)
            >>> grid.shutdown()
        """
        return self._over("members", over, in_group=in_group)[0]

    def _tell_of_axis(self, reason: BaseException, verb: str, arguments: tuple[Any, ...]) -> None:
        """Raise a clearer mistake if an axis is passed where JAX takes it: ``psum(x, "tp")``."""
        others = arguments if verb == "recv" else arguments[1:]
        axes = [each for each in others if isinstance(each, str) and each in self.mesh]
        if axes and issubclass(type(reason), UsageMistake):
            axis = axes[0]
            instead = f"worker.at({axis}=0) is a worker" if verb in _BETWEEN_TWO else f"over={axis!r}"
            raise UsageMistake(f"{reason}; {axis!r} is an axis of the mesh: {instead}") from None

    def _call(
        self,
        verb: str,
        *arguments: Any,
        in_group: bool,
        over: Over | None = None,
        along: str = "",
        tag: int | str = 0,
        rendezvous: bool = False,
        library: str = "",
        theirs: Theirs | None = None,
        limit_s: float | None = None,
    ) -> Any:
        """Make a call of the plane: read the arguments, take a seat, record it, give back what the user gets.

        `arguments` are those of the plane's verb, `out` last where it has one. `along` is `over` in words, if
        it has other ones here; that and all after it are explained at `Seat`. In one piece, because every
        collective pays for what this calls.
        """
        me, given, lent = self.id, arguments[0] if arguments else 0, False
        # The beginning of `_over`, inlined for the usual case.
        members = self._group_members if in_group is True else self._everybody
        if over is not None or type(in_group) is not bool:
            members, named = self._over(verb, over, in_group=in_group)
            along = along or named
        # Of arrays of NumPy and of the worker's own library there is nothing to be `taken`: likewise.
        ours, kind = self._arrays, type(given)
        if arguments and kind is not np.ndarray and kind is not ours and verb not in _WITHOUT_ARRAY:
            arguments, lent, library = taken(verb, arguments, me, members, self.place)
        out = arguments[-1] if arguments else None
        is_plain = out is None or type(out) is np.ndarray or type(out) is ours
        if not is_plain and verb not in _WITHOUT_OUT:
            target = read_out(verb, out, self.place)
            lent = lent or (target is not out and not isinstance(target, np.ndarray))
            arguments = (*arguments[:-1], target)
        facts, within = facts_of(
            verb, arguments, self._beside, repr(tag) if tag != 0 and verb in _BETWEEN_TWO else along
        )
        facts, within = (facts, within) if theirs is None else (as_theirs(facts, verb, theirs), "")
        recorder, error, refused = self.recorder, "", False  # a thread that is given up keeps this one
        scope, present = self._guard.enter()  # outside of `try`: a call that did not begin must not be left
        try:
            to_meet = _NOBODY if verb in _BETWEEN_TWO else members
            joined = recorder.joins(facts, scope, to_meet)
            spot = None if runtime_file(facts[4].co_filename) else facts[4:]
            seat = Seat(  # by position: each of these names would cost as much as its value
                me, members, scope, present, spot, library, along, within, tag, rendezvous, theirs, limit_s
            )
            result = getattr(self._plane, verb)(seat, *arguments)
            if verb in _FROM_ANOTHER:
                library = self._plane.library_of(me)
        except BaseException as reason:
            error, refused = class_name(reason), _came_before(reason)
            recorder.broken = _broken(reason, facts[4:]) or recorder.broken
            self._tell_of_axis(reason, verb, arguments if over is None else ())
            raise
        finally:
            recorder.parts(joined, self._plane.waited_s(me), error, refused=refused)
            try:
                self._guard.leave()
            finally:
                if lent:  # from now on its library may change or free it, on a stream of its own
                    self.place.settle()
        if result is None or result is arguments[-1]:
            return result if is_plain or result is None else filled(out)
        if not library or verb == "send":
            return result
        if not lent and not isinstance(result, np.ndarray):
            self.place.settle()  # an error on its way could no longer be found in registers
        return as_sent(library, result, given)


def command_of(me: Calling) -> int:
    """The number of the command that the worker executes; for its own thread.

    Raises:
        UsageMistake: another thread calls it.
    """
    number, _ = me._guard.enter()  # noqa: SLF001 - as a collective would
    me._guard.leave()  # noqa: SLF001
    return number
