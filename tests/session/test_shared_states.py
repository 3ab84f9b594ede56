"""Libraries that keep a rank in global variables: who uses them as all workers share them is told."""

from __future__ import annotations

import sys
import warnings

import pytest

from tests.session.written import FILES, write

# As far as we know them: what is asked for first, under its name.
SOURCES = {
    "accelerate": {
        "accelerate/__init__.py": "from accelerate.state import PartialState as Accelerator\n",
        "accelerate/state.py": "class PartialState:\n    state = {}\n    def __init__(self, rank):\n"
        "        self.__dict__ = self.state\n        self.__dict__.setdefault('rank', rank)\n",
    },
    "hydra": {
        "hydra/__init__.py": "",
        "hydra/core/__init__.py": "",
        "hydra/core/global_hydra.py": "class GlobalHydra:\n    rank = None\n    def initialize(self, rank):\n"
        "        GlobalHydra.rank = rank if GlobalHydra.rank is None else GlobalHydra.rank\n",
        "hydra/_internal/utils.py": "def detect_calling_file_or_module_from_task_function(task):\n"
        "    return (None, task.__module__)\n"
        "import inspect\n"
        "def detect_calling_file_or_module_from_stack_frame(depth):\n"
        "    return inspect.stack()[depth].filename, None\n",
    },
    "lightning": {
        "lightning/pytorch/trainer/__init__.py": "",
        "lightning/pytorch/trainer/trainer.py": "class Trainer:\n    def __init__(self, rank):\n"
        "        global current\n        self.rank = current = globals().get('current', rank)\n",
    },
    "wandb": {"wandb.py": "def init(rank):\n    global run\n    run = rank\n"},
    "megatron": {
        "megatron/core/__init__.py": "",
        "megatron/core/parallel_state.py": "def initialize_model_parallel(size):\n"
        "    global rank\n    rank = size\n",
    },
}
USES = {
    "accelerate": "from accelerate import Accelerator\n"
    "rank = [Accelerator(worker_id) for _ in range(2)][0].rank",
    "hydra": "from hydra.core.global_hydra import GlobalHydra as G\nG().initialize(worker_id)\nrank = G.rank",
    "lightning": "from lightning.pytorch.trainer.trainer import Trainer\nrank = Trainer(worker_id).rank",
    "wandb": "import wandb\nwandb.init(worker_id)\nbarrier()\nwandb.init(wandb.run)\nrank = wandb.run",
    "megatron": "from megatron.core import parallel_state as p\nbarrier()\n"
    "p.initialize_model_parallel(worker_id)\nbarrier()\nrank = p.rank",
}
MODULES = {
    "accelerate": "accelerate.state",
    "hydra": "hydra.core.global_hydra",
    "lightning": "lightning.pytorch.trainer.trainer",
    "megatron": "megatron.core.parallel_state",
    "wandb": "wandb",
}


@pytest.fixture(params=SOURCES)
def package(request, tmp_path, monkeypatch):
    for name, source in SOURCES[request.param].items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    present = {name: each for name, each in sys.modules.items() if name.partition(".")[0] == request.param}
    for name in present:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    yield request.param
    for name in [each for each in sys.modules if each.partition(".")[0] == request.param]:
        del sys.modules[name]


def test_who_shares_it_is_told_once_how_to_have_it_alone(session, package):
    s = session(2)
    with pytest.warns(UserWarning, match=f"with --own-modules {package}") as told:
        s.run(USES[package])
    assert len(told) == 2
    assert len(set(s.run("rank").values)) == 1


@pytest.mark.parametrize("package", ["wandb"], indirect=True)
def test_a_worker_that_logs_alone_as_programs_do_is_told_nothing(session, package):
    s = session(3)
    s.run("import wandb\nfor _ in range(2 * (worker_id == 1)): wandb.init(worker_id)")
    with pytest.warns(UserWarning, match="wandb keeps the run in global variables"):
        s.run("if worker_id == 2: wandb.init(worker_id)")


def test_what_has_asked_it_is_named_too(session, package, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", sys)
    names = "accelerate,transformers, or" if package == "accelerate" else f"{package}, or"
    with pytest.warns(UserWarning, match=f"--own-modules {names}"):
        session(2).run(USES[package])


def test_who_has_it_alone_is_told_nothing(session, package):
    s = session(2, own_modules=[package])
    s.run(USES[package])
    assert s.run("rank").values == [0, 1]


def test_what_each_has_alone_finds_itself_in_the_import_system(session, package, tmp_path):
    name = MODULES[package]
    with tmp_path.joinpath(*name.split(".")).with_suffix(".py").open("a") as file:
        file.write("import sys\nfound = vars(sys.modules[__name__]) is globals()\n")
    s = session(2, own_modules=[package])
    assert s.run(f"import {name}\n{name}.found").values == [True, True]


HYDRA = """
import functools, hydra._internal.utils as u, state
ask = u.detect_calling_file_or_module_from_task_function
@functools.wraps(state.start)
def wrapped(): pass
@functools.lru_cache
def task(): pass
def initialize(): return u.detect_calling_file_or_module_from_stack_frame(2)
found = ask(task), ask(state.start), ask(wrapped), initialize()
"""


@pytest.mark.parametrize("package", ["hydra"], indirect=True)
@pytest.mark.parametrize("own", [[], ["hydra"]])
def test_hydra_takes_a_program_for_the_main_one(session, package, tmp_path, own):
    (tmp_path / "train.py").write_text(HYDRA)
    write(tmp_path, FILES)
    s = session(2, own_modules=own)
    s.run_file(str(tmp_path / "train.py"))
    program, module = (str(tmp_path / "train.py"), None), (None, "state")
    assert s.run("found").values == [(program, module, module, program)] * 2
    s.run("import os\nos.chdir('/')\n" + HYDRA)
    assert s.run("found[-1]").values == [("/notebook.ipynb", None)] * 2


def test_neither_is_a_session_of_one_worker_nor_the_program(session, package):
    s = session(1)
    s.run(USES[package])
    exec(USES[package], {"worker_id": 0, "barrier": int})


MPI = """
class World:
    def Get_size(self): return size
COMM_WORLD, Is_initialized, Is_finalized = World(), lambda: True, lambda: False
"""


@pytest.fixture
def mpi(tmp_path, monkeypatch):
    """Makes a package like mpi4py, in which COMM_WORLD has that many ranks."""

    def make(size):
        for name, source in {"__init__.py": "", "MPI.py": f"size = {size}{MPI}"}.items():
            (tmp_path / "mpi4py").mkdir(exist_ok=True)
            (tmp_path / "mpi4py" / name).write_text(source)
        monkeypatch.syspath_prepend(tmp_path)

    for name in ("mpi4py", "mpi4py.MPI"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield make
    for name in ("mpi4py", "mpi4py.MPI"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("size", "count", "told"), [(1, 2, 2), (1, 1, 0), (4, 2, 0)])
def test_who_takes_mpis_communicator_of_one_process_is_told(session, mpi, size, count, told):
    mpi(size)
    s = session(count)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        s.run("from mpi4py import MPI\nsize = MPI.COMM_WORLD.Get_size()\nMPI.COMM_WORLD is MPI.COMM_WORLD")
    said = [str(each.message).partition(",")[0] for each in caught]
    assert said == ["MPI.COMM_WORLD has one rank"] * told
    assert s["size"].get_all() == [size] * count
    s.shutdown()
    assert type(sys.modules["mpi4py.MPI"]) is type(warnings)
