"""Process groups of PyTorch's, a set of them for each worker, on a stand-in for what keeps them there."""

from __future__ import annotations

import sys
import warnings

import pytest

from disco_magic.callers.replaced import Replaced
from disco_magic.errors import CellError
from disco_magic.functions.process_groups.work import HOME
from disco_magic.functions.process_groups.worlds import fit_worlds
from disco_magic.isolation.imported import Libraries, told_if_unknown
from tests.functions.process_groups import c10d


@pytest.fixture
def found(monkeypatch):
    """The stand-in for the module of PyTorch's, which nobody has changed yet."""
    return c10d.install(monkeypatch)


@pytest.fixture
def s(found, session):
    """Four workers."""
    started = session(4)
    started.run("import torch.distributed as dist, sys")
    return started


def test_each_worker_has_its_rank_in_a_world_of_its_own(s):
    s.run("dist.init_process_group('nccl')")
    assert s.run("dist.get_rank(), dist.world().size(), dist.get_backend()").values == [
        (worker, 4, "disco") for worker in range(4)
    ]


def test_who_is_no_worker_keeps_the_world_that_was_there(s, found):
    found._world.default_pg = "the process's"
    assert s.run("dist.is_initialized()").values == [False] * 4
    s.run("dist.init_process_group()")
    assert found._world.default_pg == "the process's"
    assert found._world.pg_map == {}
    with pytest.raises(RuntimeError, match="RANK expected"):
        found.rendezvous("env://")


def test_groups_of_the_process_end_without_those_of_workers(s, found, monkeypatch):
    # "Could not resolve the process group registered under the name 0@1"
    s.run("dist.init_process_group()")
    theirs = dict(found.by_name)
    assert len(theirs) == 4
    monkeypatch.setitem(c10d.PLUGINS, "gloo", lambda *_: "made")
    made, _ = found._new_process_group_helper(1, 0, [], "gloo", None, "of the process")
    assert found.by_name.keys() - theirs == {"of the process"}
    found._unregister_all_process_groups()
    assert found.by_name == theirs
    assert made == "made"


def test_groups_that_the_process_had_before_end_with_it(found, session):
    found._world.pg_names["group"] = "before"
    found.by_name["before"] = "group"
    session(2)
    found._unregister_all_process_groups()
    assert found.by_name == {}


def test_a_first_group_that_failed_on_some_leaves_no_number_that_others_lack(s):
    with pytest.raises(CellError):
        s.run("dist.init_process_group(rank=0, world_size=4)")
    s.run("if dist.is_initialized(): dist.destroy_process_group()\ndist.init_process_group()")
    s.run("row = dist.new_group([0, 1, 2, 3])")
    assert len(set(s.run("row.group_name.partition('@')[0]").values)) == 1


def test_all_is_as_before_when_the_last_session_has_ended(found, session):
    kind = type(found._world)
    names = "_new_process_group_helper", "_unregister_all_process_groups", "_is_barrier_after_init"
    functions = [getattr(found, name) for name in names]
    handlers = dict(sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers)
    first, second = session(1), session(1)
    first.shutdown()
    assert type(found._world) is not kind
    second.shutdown()
    assert type(found._world) is kind
    assert [getattr(found, name) for name in names] == functions
    assert sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers == handlers


def test_a_restarted_session_begins_without_groups(s):
    s.run("dist.init_process_group()")
    s.restart()
    s.run("import torch.distributed as dist")
    assert s.run("dist.is_initialized()").values == [False] * 4
    s.run("dist.init_process_group()")


def test_a_program_begins_without_groups_whatever_was_left(s, found, tmp_path):
    # "trying to initialize the default process group twice", of a program that was run again.
    path = tmp_path / "train.py"
    path.write_text(
        "import sys, torch.distributed as dist\n"
        "seen = dist.is_initialized()\ndist.init_process_group()\nif sys.argv[1:]: sys.exit(3)\n"
    )
    for arguments in ((), ("fails",), ()):
        if arguments:
            with pytest.raises(CellError, match="SystemExit: 3"):
                s.run_file(path, *arguments)
        else:
            s.run_file(path)
        assert (
            s.run("seen, dist.is_initialized()").values == [(False, True)] * 4
        )  # which cells may go on with
    assert len(found.by_name) == 12  # what a program has left can be used while it is there
    s.run("dist.destroy_process_group()\ndist.init_process_group()\nc10d = dist.distributed_c10d")
    s.run("group = c10d._world.default_pg")
    s.run_file(path)
    assert s.run("seen, c10d._world.default_pg is group").values == [(False, True)] * 4
    # They stand for those that were destroyed, too.
    assert len({id(group) for group in found.by_name.values()}) == 8
    s.run("dist.destroy_process_group()")
    assert found.by_name == {}


def test_ranks_that_are_given_have_to_be_the_workers(s):
    s.run("dist.init_process_group(rank=worker_id, world_size=4)")
    s.run("dist.destroy_process_group()")
    with pytest.raises(
        CellError, match=r"rank 0 of 1 on worker 2 of 4 - .*leave rank and world_size out"
    ) as caught:
        s.run("if worker_id == 2: dist.init_process_group(rank=0, world_size=1)")
    assert caught.value.failures[2].summary.startswith("UsageMistake: init_process_group")


def test_ranks_of_a_group_have_to_ascend(s):
    s.run("dist.init_process_group()\nmake = dist.distributed_c10d._new_process_group_helper")
    with pytest.raises(CellError, match=r"new_group: ranks \[2, 0\] have to ascend in workers' groups"):
        s.run("make(2, 0, [2, 0], 'gloo', None, group_name='7')")


def test_groups_of_some_are_made_by_all_and_have_names_of_their_own(s, found):
    s.run("dist.init_process_group()\nsub = dist.new_group([2, 0])\ntwin = dist.new_group([0, 2])")
    assert s.run("sub if sub == -100 else (sub.rank(), sub.size(), repr(sub))").values == [
        (0, 2, "<process group of workers [0, 2]>"),
        -100,
        (1, 2, "<process group of workers [0, 2]>"),
        -100,
    ]
    assert len(found.by_name) == 4 + 2 + 2
    assert s.run("sub == twin").values == [False, True, False, True]


def test_members_have_one_store_under_the_name_that_they_have_in_common(s, found):
    s.run("dist.init_process_group()\nkept = list(dist.distributed_c10d._world.pg_map.values())[0][1]")
    first, *_ = s["kept"].get_all()
    assert first[0] == "0/"
    s.run("same = allgather_objects(id(kept[1]))")
    assert len({*s["same"].get(0)}) == 1


def test_who_ends_its_groups_leaves_the_others_theirs(s, found):
    s.run("dist.init_process_group()\nbarrier()\nif worker_id == 1: dist.destroy_process_group()")
    assert len(found.by_name) == 3
    s.run("if worker_id == 1: dist.init_process_group()")
    assert s.run("dist.get_rank()").values == [0, 1, 2, 3]


def test_groups_that_are_made_anew_have_the_names_of_those_that_were_destroyed(s, found):
    """What DTensors have computed once keeps the names: "Could not resolve the process group registered"."""
    s.run("dist.init_process_group()\nsub = dist.new_group([0, 2])")
    names = set(found.by_name)
    s.run("dist.destroy_process_group()")
    assert not found.by_name
    s.run("dist.init_process_group()\nsub = dist.new_group([0, 2])")
    assert set(found.by_name) == names


def test_groups_of_the_same_members_stand_for_destroyed_ones_of_other_names(s, found):
    s.run("dist.init_process_group()\nfirst, then = dist.new_group([0, 1]), dist.new_group([2, 3])")
    names = set(found.by_name)
    s.run("dist.destroy_process_group()")
    s.run("dist.init_process_group()\nfirst, then = dist.new_group([2, 3]), dist.new_group([0, 1])")
    assert names <= set(found.by_name)
    assert {name: found.by_name[name]._members for name in names if name[0] != "0"} == {
        name: (0, 1) if name[0] == "1" else (2, 3) for name in names if name[0] != "0"
    }


def test_names_of_a_session_that_is_open_are_not_given_to_groups_of_another(s, found, session):
    """Its tensors would find them: "a process group of session 2 can be used by its workers only"."""
    s.run("dist.init_process_group()")
    names = set(found.by_name)
    s.run("dist.destroy_process_group()")
    other = session(4)
    other.run("import torch.distributed as dist\ndist.init_process_group()")
    assert names.isdisjoint(found.by_name)
    s.shutdown()
    other.run("dist.destroy_process_group()\ndist.init_process_group()")
    assert names <= set(found.by_name)


def test_a_group_of_everybody_takes_its_name_back_from_the_first_group(s, found):
    """The first one stood for it, so that each run of a program needed one more name, for good."""
    program = "dist.init_process_group()\nsub = dist.new_group([0, 1, 2, 3])"
    s.run(program)
    names = set(found.by_name)
    for _ in range(2):
        s.run("dist.destroy_process_group()")
        s.run(program)
        assert set(found.by_name) == names
        subs = set(s.run("id(sub)").values)
        assert {name for name, group in found.by_name.items() if id(group) in subs} == {
            name for name in names if name[0] == "1"
        }
    s.run("dist.destroy_process_group()\ndist.init_process_group()")
    assert set(found.by_name) == names


def _distributed_excepthook(*_error):
    """As PyTorch puts it there for groups of the process's own."""


@pytest.mark.parametrize("hook", [sys.excepthook, _distributed_excepthook])
def test_making_groups_leaves_what_tells_of_errors_as_it_is(s, monkeypatch, hook):
    s.run("dist.init_process_group()")
    monkeypatch.setattr(sys, "excepthook", hook)
    for _ in range(2):
        with pytest.raises(CellError):
            s.run("dist.destroy_process_group()\ndist.init_process_group(rank=9, world_size=10)")
        s.run("dist.init_process_group()")
        assert sys.excepthook is hook


def test_what_a_cell_that_failed_was_gathering_is_forgotten(s):
    s.run("dist.init_process_group()\nworld = dist.distributed_c10d._world")
    s.run("import threading\nworld.pg_coalesce_state['group'] = [1]\nseen = [len(world.pg_coalesce_state)]")
    s.run("t = threading.Thread(target=lambda: seen.append(len(world.pg_coalesce_state)))")
    s.run("t.start()\nt.join()\nseen.append(len(world.pg_coalesce_state))")
    assert s["seen"].get_all() == [[1, 1, 0]] * 4


def test_where_pytorch_leaves_the_ranks_to_mpi_they_are_the_workers_too(s, found):
    s.run("f = dist.distributed_c10d._new_process_group_helper\nworld = dist.distributed_c10d._world")
    s.run("world.default_pg, _ = f(-1, -1, [], 'mpi', None, group_name='0')")
    assert s.run("dist.get_rank(), world.default_pg.size()").values == [(worker, 4) for worker in range(4)]


def test_what_strikes_half_way_is_undone(found, monkeypatch):
    kind, helper, put = type(found._world), found._new_process_group_helper, Replaced.put
    puts = []

    def struck(self):
        puts.append(self)
        if len(puts) == 2:
            raise KeyboardInterrupt
        put(self)

    monkeypatch.setattr(Replaced, "put", struck)
    with pytest.raises(KeyboardInterrupt):
        fit_worlds(found)
    assert (type(found._world), found._new_process_group_helper) == (kind, helper)


def test_groups_are_equal_whoever_has_made_them(s):
    # As a module does that one worker imports, or in which each keeps its groups.
    s.run("dist.init_process_group()\nif worker_id == 1: dist.kept = dist.world()\nbarrier()")
    line = "dist.kept == dist.world(), dist.kept in dist.distributed_c10d._world.pg_map, dist.kept.rank()"
    assert s.run(line).values == [(True, True, worker) for worker in range(4)]
    group = sys.modules["torch.distributed"].kept
    assert group != "another"
    with pytest.raises(ValueError, match="can be used by its workers only: use it in a cell"):
        group.barrier()


def test_threads_that_a_worker_starts_are_in_its_world(s):
    s.run("dist.init_process_group()\nimport threading\nseen = []")
    s.run("t = threading.Thread(target=lambda: seen.append(dist.get_rank()))\nt.start()\nt.join()")
    assert s["seen"].get_all() == [[0], [1], [2], [3]]


def test_nobody_else_makes_groups_of_the_backend(s, found):
    with pytest.raises(
        ValueError, match="process groups of the backend 'disco' are made on workers only, in a cell"
    ):
        found._new_process_group_helper(1, 0, [], "disco", None, group_name="0")


def test_of_a_module_that_is_another_one_is_warned(found, session):
    del found._new_process_group_helper
    session(1)  # where warnings are errors, as here
    with pytest.warns(UserWarning, match="with this version of it there are none: AttributeError"):
        Libraries({HOME: told_if_unknown(fit_worlds, "with this version of it there are none")}).enter(found)


def test_a_module_that_is_imported_later_is_changed_then(session, monkeypatch, tmp_path):
    if "torch" in sys.modules:
        pytest.skip("PyTorch itself has been imported")
    package = tmp_path / "torch" / "distributed"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from . import distributed_c10d\n")
    (package / "distributed_c10d.py").write_text("odd = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    s = session(1)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        s.run("import torch.distributed")
    s.shutdown()
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]
    assert any("no process groups of their own" in str(each.message) for each in heard)
