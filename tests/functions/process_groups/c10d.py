"""A stand-in for the part of PyTorch that keeps process groups: one set of them for the process, as there."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from urllib.parse import urlsplit

import numpy as np

from tests.doubles.arrays import tensor, torch

NAMES = (
    "torch",
    "torch.distributed",
    "torch.distributed.rendezvous",
    "torch.distributed.distributed_c10d",
    "torch._C._distributed_c10d",
)
TABLES = {
    name: {}
    for name in ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag")
}

PLUGINS = {}


def install(monkeypatch):
    """Put it into `sys.modules` until the test is over; the module that is changed."""
    modules = {name: ModuleType(name) for name in NAMES}
    for table in TABLES.values():
        table.clear()
    found = modules["torch.distributed.distributed_c10d"]
    vars(modules["torch"]).update(vars(torch()), distributed=modules["torch.distributed"])
    vars(modules["torch"]).update(futures=SimpleNamespace(Future=Future), cat=cat, device=str)
    modules["torch"].autograd.set_multithreading_enabled = lambda _: None
    modules["torch"].__path__ = modules["torch.distributed"].__path__ = []
    vars(modules["torch._C._distributed_c10d"]).update(Work=Work, _create_work_from_future=Done)
    handlers, by_name = {"env": from_environment}, {}
    vars(modules["torch.distributed.rendezvous"]).update(_rendezvous_handlers=handlers)
    vars(found).update(
        _world=World(),
        _new_process_group_helper=helper(found),
        _unregister_all_process_groups=by_name.clear,
        _register_process_group=by_name.__setitem__,
        _unregister_process_group=by_name.pop,
        _is_barrier_after_init=lambda: 0,
        by_name=by_name,
        monitored_barrier=refused,
        _get_default_group=lambda: found._world.default_pg,
        Backend=Backend,
        default_pg_timeout=timedelta(minutes=30),
        ProcessGroup=ProcessGroup,
        PrefixStore=lambda prefix, store: (prefix, store),
        rendezvous=lambda url, **options: handlers[urlsplit(url).scheme](url, **options),
    )
    vars(modules["torch.distributed"]).update(public(found), distributed_c10d=found, HashStore=object)
    vars(modules["torch.distributed"]).update(monitored_barrier=found.monitored_barrier)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return found


def refused(group=None, timeout=None, wait_all_ranks=False):
    """As PyTorch's, which asks for one backend of its own."""
    raise ValueError("monitored_barrier is only implemented for GLOO backend.")


def cat(tensors):
    return tensor(np.concatenate([each.numpy() for each in tensors]), device="cpu")


def table(name):
    return property(lambda _: TABLES[name])


class World:
    """What `torch.distributed.distributed_c10d._World` is: tables of the module's, behind properties."""

    group_count = 0
    default_pg = None

    def __init__(self):
        self.pg_coalesce_state = {}


for name in TABLES:
    setattr(World, name, table(name))


class Future:
    def set_result(self, value):
        self.value = value


class Work:
    def __init__(self):
        pass


class Done(Work):
    def __init__(self, future):
        self.future = future

    def wait(self, _timeout=None):
        return True

    def get_future(self):
        return self.future


class ProcessGroup:
    def __init__(self, rank, size):
        self.given = rank, size


class Backend:
    @classmethod
    def register_backend(cls, name, make, **options):
        PLUGINS[name] = make
        setattr(cls, name.upper(), name)


def from_environment(url, **_):
    raise RuntimeError(f"environment variable RANK expected, but not set, for {url}")


def helper(found):
    """As the function of that name: makes a group, and enters it where groups are looked up."""

    def _new_process_group_helper(  # noqa: PLR0917 - as there
        group_size, group_rank, global_ranks_in_group, backend, store, group_name, backend_options=None
    ):
        world = found._world
        if global_ranks_in_group and world.default_pg.rank() not in global_ranks_in_group:
            return -100, None
        options = SimpleNamespace(
            group_size=group_size,
            group_rank=group_rank,
            global_ranks_in_group=global_ranks_in_group,
            group_id=group_name,
        )
        group = PLUGINS[backend](options, backend_options)
        world.pg_map[group] = backend, (group_name, store)
        world.pg_names[group] = group_name
        if group_name in found.by_name:
            raise RuntimeError(f"a group of that name is there already: {group_name}")
        found.by_name[group_name] = group
        return group, (group_name, store)

    return _new_process_group_helper


def public(found):
    """What programs call."""

    def init_process_group(backend=None, init_method="env://", rank=-1, world_size=-1, pg_options=None):
        if found._world.default_pg is not None:
            raise ValueError("trying to initialize the default process group twice!")
        query = f"?rank={rank}&world_size={world_size}" if rank >= 0 else ""
        store, rank, size = next(found.rendezvous(init_method + query, timeout=1))
        name = str(found._world.group_count)
        found._world.group_count += 1
        group, _ = found._new_process_group_helper(
            size, rank, [], backend, store, group_name=name, backend_options=pg_options
        )
        found._world.default_pg = group
        found._world.pg_group_ranks[group] = {each: each for each in range(size)}
        before = sys.excepthook

        def _distributed_excepthook(*error):
            before(*error)

        sys.excepthook = _distributed_excepthook
        found._is_barrier_after_init()

    def new_group(ranks, group_desc="undefined"):
        ranks, world = sorted(ranks), found._world
        _, store = world.pg_map[world.default_pg]
        name = str(world.group_count)
        world.group_count += 1
        rank = world.default_pg.rank()
        mine = ranks.index(rank) if rank in ranks else None
        group, _ = found._new_process_group_helper(len(ranks), mine, ranks, "gloo", store, group_name=name)
        if mine is not None:
            group.group_desc = group_desc
        return group

    def destroy_process_group():
        for entries in ("pg_map", "pg_names", "pg_group_ranks"):
            getattr(found._world, entries).clear()
        found._world.default_pg = None
        found._world.group_count = 0
        found._unregister_all_process_groups()

    def world():
        return found._world.default_pg

    return {
        "init_process_group": init_process_group,
        "new_group": new_group,
        "destroy_process_group": destroy_process_group,
        "is_initialized": lambda: found._world.default_pg is not None,
        "get_backend": lambda: found._world.pg_map[found._world.default_pg][0],
        "get_rank": lambda: world().rank(),
        "world": world,
    }
