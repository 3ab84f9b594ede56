"""PyTorch's process groups, a set of them for each worker: DDP, FSDP and DTensor among threads.

PyTorch keeps one set for the process, with one rank in it. As long as any session runs,

1. ``torch.distributed.distributed_c10d._world``, where it keeps them, shows each worker a world of its own,
   and all other callers the original one;
2. what a worker makes is a group of `groups`, whichever backend it asks for: the session's plane carries
   everything. Its name contains the world's number, because PyTorch has one table of groups by name;
3. ``env://``, where ranks are looked for by default, gives a worker its own rank: the environment is shared.

A world ends with its worker: a restarted session begins with none. A program has its own, as a process would.
"""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary, WeakSet

from disco_magic.callers import namespaces
from disco_magic.callers.current import is_beside
from disco_magic.callers.per_worker import PerWorker
from disco_magic.callers.replaced import Replaced
from disco_magic.functions.calling import command_of
from disco_magic.functions.context import calling_context
from disco_magic.functions.process_groups.backend import BACKEND, created
from disco_magic.isolation import programs
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from disco_magic.functions.context import WorkerContext

_RENDEZVOUS: Final = "torch.distributed.rendezvous"
_ENVIRONMENT: Final = "env"
# What a world keeps in dictionaries of the module.
_TABLES: Final = ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag")
# Calls that are made together when a block ends.
_GATHERED: Final = "pg_coalesce_state"
# A backend that moves nothing, for traces.
_FAKE: Final = "fake"
# Which GPU, and how to set up NCCL there: for groups of workers the session has decided this.
_OPTIONS: Final = ("backend_options", "pg_options", "device_id")
_numbers: Final = count()  # of worlds
_Names = dict[str, tuple[int, ...]]
# By PyTorch's module, and by session and worker: names of groups that were destroyed, with their members.
_ended: Final[WeakKeyDictionary[Any, defaultdict[tuple[int, int], _Names]]] = WeakKeyDictionary()


class Worlds:
    """PyTorch's module, with a world for each worker."""

    def __init__(self, c10d: Any) -> None:
        self._c10d = c10d
        self._shared = c10d._world  # noqa: SLF001 - this class is about what PyTorch has no public names for
        self._first: type = type(self._shared)
        self._own: Any = type("World", (self._first,), dict.fromkeys(_TABLES) | {"group_count": 0})
        self._worlds: PerWorker[Any] = PerWorker(self._new_world)
        self._stores: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by the plane of a session's workers
        self._lock = new_lock()
        self._hook = sys.excepthook
        self._making: WeakSet[Any] = WeakSet()  # worlds whose first group is being made
        self._of_process: set[str] = set()  # names of the groups that no worker has made
        self._ended = _ended.setdefault(c10d, defaultdict(dict))
        self._signature = inspect.signature(c10d._new_process_group_helper)  # noqa: SLF001
        self._functions = {
            name: Replaced(c10d, name, ours)
            for name, ours in (
                ("_new_process_group_helper", self._new_group),
                ("_unregister_all_process_groups", self._forget_groups),
                ("_is_barrier_after_init", self._is_barrier_after_init),
            )
        }
        rendezvous: Any = sys.modules[_RENDEZVOUS]
        self._handlers: dict[str, Any] = rendezvous._rendezvous_handlers  # noqa: SLF001
        self._environment = self._handlers[_ENVIRONMENT]
        if not hasattr(c10d.Backend, BACKEND.upper()):
            c10d.Backend.register_backend(BACKEND, created, extended_api=True, devices=["cpu", "cuda"])
        # Since 2.15 PyTorch's flight recorder attaches itself to groups of all backends but these. For ours
        # it raises "ProcessGroup name not set": it asks in C for the name of a backend, and ours has none.
        recording_themselves: set[str] = getattr(c10d, "_FR_SELF_RECORDING_BACKENDS", set())
        recording_themselves.add(BACKEND)

    def put(self) -> None:
        """Install the patches."""
        self._of_process = set(self._shared.pg_names.values())
        for function in self._functions.values():
            function.put()
        self._handlers[_ENVIRONMENT] = self._rendezvous
        ours = {"__getattribute__": self._asked, "__setattr__": self._assigned}  # bound to this object
        # The object stays: modules of PyTorch refer to it under names of their own.
        object.__setattr__(self._shared, "__class__", type(self._first.__name__, (self._first,), ours))

    def take(self) -> None:
        """Remove the patches; only our backend stays registered. Idempotent."""
        object.__setattr__(self._shared, "__class__", self._first)
        if self._handlers[_ENVIRONMENT] == self._rendezvous:
            self._handlers[_ENVIRONMENT] = self._environment
        for function in self._functions.values():
            function.take()

    # --- replacements of PyTorch's functions ---------------------------------------------------------

    def _asked(self, name: str) -> Any:
        me = calling_context()
        if me is None:
            return object.__getattribute__(self._shared, name)
        world = self._of(me)
        if name == _GATHERED and not is_beside():
            command = command_of(me)
            if world.command != command:  # what a failed cell has left would take the calls of this one
                world.command = command
                world.pg_coalesce_state.clear()
        return getattr(world, name)

    def _assigned(self, name: str, value: Any) -> None:
        me = calling_context()
        if me is None:
            object.__setattr__(self._shared, name, value)
        else:
            setattr(self._of(me), name, value)

    def _new_world(self) -> Any:
        world = self._own()
        vars(world).update({name: {} for name in _TABLES})
        vars(world).update(number=next(_numbers), registered={}, stand_ins={})
        vars(world).update(command=0, program=None, outer=None)
        return world

    def _of(self, me: WorkerContext) -> Any:
        """The worker's world now: a program begins without groups, and what cells have made is kept for them.

        If cells have made no groups, they go on with those that a program leaves; the next program does not.
        """
        world, execution = self._worlds.of(me), programs.execution_of(me)
        if execution is not None and world.program is not execution:
            made = self._new_world()
            made.program, made.outer = execution, world if world.program is None else world.outer
        elif execution is None and world.program is not None and world.outer.default_pg is not None:
            made = world.outer
        else:
            return world
        if world.program is not None:  # tensors that it has left find their groups by name
            self._take_over(made, world)
        me.belongings[self._worlds] = made
        return made

    def _anew(self, me: WorkerContext, before: Any) -> Any:
        """A world for the first group, without what an `init` or `destroy` has left there that was cut off.

        Such a call can leave another number of groups than those of the other workers.
        """
        made = self._new_world()
        made.program, made.outer, made.group_count = before.program, before.outer, 1
        self._take_over(made, before)
        me.belongings[self._worlds] = made
        return made

    def _take_over(self, made: Any, before: Any) -> None:
        made.registered |= before.registered
        made.stand_ins |= before.stand_ins

    def _forget(self, me: WorkerContext, world: Any) -> None:
        """Remove the groups that it has registered from PyTorch's table."""
        for names in (world.registered, world.stand_ins):
            while names:
                name, members = names.popitem()
                self._c10d._unregister_process_group(name)  # noqa: SLF001
                self._ended[me.session_id, me.id][name] = members

    def _destroyed(self, me: WorkerContext) -> _Names:
        """The names that a worker may give again: its own, and those of its number in closed sessions.

        Not those of a session that is open: its tensors would find groups of another session.
        """
        key = me.session_id, me.id
        mine, present = self._ended[key], {key[0], *(session for session, _ in namespaces.in_use())}
        for each in [each for each in self._ended.copy() if each[1] == me.id and each[0] not in present]:
            mine |= self._ended.pop(each, {})  # one of two sessions that adopt them at once
        return mine

    def _named(self, me: WorkerContext, name: str, members: tuple[int, ...]) -> str:
        """The full name of a group, which is that of a destroyed one if these have its name and members.

        What DTensors have computed once is kept for the process, with the mesh and so with the names of its
        groups. A process that makes them anew gives them the same names again.
        """
        mine, world = self._destroyed(me), self._of(me)
        alike = (each for each, theirs in [*world.stand_ins.items(), *mine.items()] if theirs == members)
        full = next((each for each in alike if each.partition("@")[0] == name), "")
        if full in world.stand_ins:  # only until there is one of this name again: else each run adds a name
            self._c10d._unregister_process_group(full)  # noqa: SLF001
            mine[full] = world.stand_ins.pop(full)
        return full or f"{name}@{world.number}"

    def _register(
        self, me: WorkerContext, world: Any, group: Any, name: str, members: tuple[int, ...]
    ) -> None:
        """Note that `group` has this name, and let it stand for destroyed ones of the same members, too."""
        world.registered[name] = members
        mine = self._destroyed(me)
        mine.pop(name, None)
        for each in [each for each, theirs in mine.items() if theirs == members]:
            self._c10d._register_process_group(each, group)  # noqa: SLF001
            world.stand_ins[each] = mine.pop(each)

    def _new_group(self, *args: Any, **kwargs: Any) -> Any:
        """Make a group of the calling worker; replaces `_new_process_group_helper`."""
        first, me = self._functions["_new_process_group_helper"].below, calling_context()
        call = self._signature.bind(*args, **kwargs)
        given = call.arguments
        name = given["group_name"]
        if me is None:
            self._of_process.add(name)
            return first(*args, **kwargs)
        given.update(dict.fromkeys(given.keys() & set(_OPTIONS)))
        if given["backend"] != _FAKE:
            given["backend"] = BACKEND
        world = self._of(me)
        if not given["global_ranks_in_group"] and world.default_pg is None:
            world, name = self._anew(me, world), type(name)("0")
        members = tuple(given["global_ranks_in_group"] or range(me.num_workers))
        given["group_name"] = type(name)(self._named(me, name, members))
        if given["group_size"] < 0:  # PyTorch's way if MPI knows the ranks
            given.update(group_size=me.num_workers, group_rank=me.id, store=self._store(me))
        store = given["store"]
        if not given["global_ranks_in_group"]:
            # A cell may begin anew if a program has left nothing.
            world.program = programs.execution_of(me)
            with self._lock:
                self._hook = self._hook if self._making else sys.excepthook
                self._making.add(world)
        try:
            group, kept = first(*call.args, **call.kwargs)
        except BaseException:
            with self._lock:
                self._making.discard(world)
            raise
        if kept is None:  # the worker is no member
            return group, kept
        # Members find each other's keys under the name that they share.
        kept = self._c10d.PrefixStore(f"{name}/", store)
        self._register(me, world, group, given["group_name"], members)
        world.pg_map[group] = (world.pg_map[group][0], kept)
        return group, kept

    def _forget_groups(self) -> None:
        """Forget the caller's groups only; replaces `_unregister_all_process_groups`."""
        me = calling_context()
        if me is not None:
            self._forget(me, self._of(me))
            return
        while self._of_process:  # not all that are in the table: workers have theirs there
            self._c10d._unregister_process_group(self._of_process.pop())  # noqa: SLF001

    def _is_barrier_after_init(self) -> Any:
        """Called last for a new world: restores `sys.excepthook`, which PyTorch lets print a rank first."""
        me = calling_context()
        if me is not None:
            world = self._of(me)
            with self._lock:
                sys.excepthook = self._hook
                self._making.discard(world)
        return self._functions["_is_barrier_after_init"].below()

    def _rendezvous(self, url: str, **options: Any) -> Iterator[Any]:
        """Replaces the handler that reads ranks from the environment."""
        me = calling_context()
        if me is None:
            return iter(self._environment(url, **options))
        said = parse_qs(urlsplit(url).query)
        [rank], [size] = said.get("rank", [me.id]), said.get("world_size", [me.num_workers])
        return iter([(self._store(me), int(rank), int(size))])

    def _store(self, me: WorkerContext) -> Any:
        """The store shared by workers that are started together."""
        plane = me._plane  # noqa: SLF001 - what only these share
        with self._lock:
            if plane not in self._stores:
                self._stores[plane] = sys.modules["torch.distributed"].HashStore()
            return self._stores[plane]


def fit_worlds(c10d: ModuleType) -> Callable[[], None]:
    """Give each worker its own process groups; return what undoes it."""
    worlds = Worlds(c10d)
    try:
        worlds.put()
    except BaseException:  # an interrupt: half of it would be worse than nothing
        worlds.take()
        raise
    return worlds.take
