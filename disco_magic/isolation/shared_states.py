"""Libraries that keep state for the process: workers are warned, or take turns, or are refused.

These libraries were made for processes: their variables hold the rank of the worker that came last, or of the
first one, and the errors that follow do not mention it. The same holds for Hydra and its configuration.

Models are made or loaded by transformers and accelerate one worker after the other. While they do that, these
libraries set the process's default dtype, and replace functions that make and fill parameters, for all
threads. Several workers at once would get parameters of another dtype, or none, and what the last one
restores is not what was there before.
"""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import ModuleOfWorkers, dictionary_of, exchange
from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.callers.replaced import in_place_of, replace_all, replacing
from disco_magic.errors import UsageMistake
from disco_magic.isolation.imported import each_of
from disco_magic.isolation.standing_modules import imports_of
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


@in_place_of("detect_calling_file_or_module_from_task_function")
def fit_hydra_tasks(below: Callable[..., Any], task: Any) -> Any:
    """Let Hydra find configurations beside a worker's program; in ``hydra._internal.utils``.

    It looks beside the file of ``__main__``, in IPython's folder for cells, and in the package of any other
    module.
    """
    inner = inspect.unwrap(task)
    if inspect.isfunction(inner) and inner.__module__ == CELL_MODULE:
        return inspect.getfile(inner), None
    return below(task)


@in_place_of("detect_calling_file_or_module_from_stack_frame")
def fit_hydra_frames(below: Callable[..., Any], depth: int) -> Any:
    """Likewise where a cell calls Hydra."""
    file, name = below(depth + 2)  # two more: this one, and what calls it
    if name is None and calling_worker() is not None and not os.path.exists(file):
        file = os.path.join(os.getcwd(), "notebook.ipynb")  # as of a notebook's cell, for its folder
    return file, name


@in_place_of("init_rpc")
def fit_rpc(below: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Refuse PyTorch's RPC, which has one agent per process; in ``torch.distributed.rpc``."""
    me = calling_worker()
    if me is not None and me.num_workers > 1:
        raise UsageMistake(
            "torch.distributed.rpc has one agent in a process, and workers are threads of one: who"
            " waited for others would wait for ever. Call functions with session.call_packed, or send"
            " and recv"
        )
    return below(*args, **options)


def fit_mpi(module: ModuleType) -> Callable[[], None]:
    """Warn a worker that takes MPI's communicator of a single process; `module` is ``mpi4py.MPI``.

    Each worker would be rank 0 of 1, and its program would compute something else without a word.
    """
    told: set[tuple[int, int]] = set()
    world: Any = dictionary_of(module)["COMM_WORLD"]

    class MpiOfWorkers(ModuleOfWorkers):
        """The class of the module while any session runs."""

        @property
        def COMM_WORLD(self) -> Any:  # noqa: N802 - MPI's name
            """The usual one."""
            me = calling_worker()
            if me is not None and me.num_workers > 1 and (me.session_id, me.id) not in told:
                told.add((me.session_id, me.id))
                names = dictionary_of(self)
                is_on = names["Is_initialized"]() and not names["Is_finalized"]()
                if is_on and world.Get_size() == 1:
                    warnings.warn(
                        "MPI.COMM_WORLD has one rank, the process that all workers are threads of: each is"
                        " rank 0 of 1 there. Use the collectives that cells have, allreduce(x), or mpiexec",
                        stacklevel=2,
                    )
            return world

    return exchange(module, MpiOfWorkers)


def telling(
    owner: str, function: str, *users: str, kept: str = "the rank", silent: int = 0
) -> Callable[[ModuleType], Callable[[], None]]:
    """Return what warns workers of a session that call a function of a module, after the first `silent`.

    Args:
        owner: the class of the module that has the function; "": the module itself.
        function: its name.
        users: packages that need the same, if they are imported.
        kept: what the module keeps in global variables.
        silent: so many workers may call it without a warning.
    """

    def fit(module: ModuleType) -> Callable[[], None]:
        package = module.__name__.partition(".")[0]
        told: set[tuple[int, int]] = set()
        using: defaultdict[int, set[int]] = defaultdict(set)

        @replacing(getattr(module, owner) if owner else module, function)
        def instead(*args: Any, **options: Any) -> Any:
            me = calling_worker()
            if me is not None and me.num_workers > 1 and imports_of(module.__name__) is None:
                key = me.session_id, me.id
                using[me.session_id].add(me.id)
                # Once, because such objects are made again and again.
                if key not in told and len(using[me.session_id]) > silent:
                    told.add(key)
                    names = [package, *(each for each in users if each in sys.modules)]
                    warnings.warn(
                        f"{package} keeps {kept} in global variables, which workers share: start the session "
                        f"with --own-modules {','.join(names)}, or own_modules={names}, and each has its own",
                        stacklevel=2,
                    )
            return instead.below(*args, **options)

        return replace_all([instead])

    return fit


_LOADING: Final = ("from_pretrained", "_from_config")
# Calls with one of these load a model together with other workers, by collectives.
_TOGETHER: Final = frozenset({"tp_plan", "tp_size", "device_mesh", "distributed_config"})
_WHAT: Final = "models are made or loaded"


def _load(below: Callable[..., Any], *args: Any, **options: Any) -> Any:
    if any(options.get(each) is not None for each in _TOGETHER):
        return below(*args, **options)
    with WORKER_MUTEX.taken(_WHAT):
        made = below(*args, **options)
    WORKER_MUTEX.await_others()  # otherwise what it makes next would be subject to others' loading
    return made


fit_transformers: Final = each_of(*(in_place_of(name, within="PreTrainedModel")(_load) for name in _LOADING))
"""Let workers load models one after the other; in ``transformers.modeling_utils``."""


@in_place_of("init_on_device")
@contextmanager
def fit_accelerate_models(below: Callable[..., Any], *args: Any, **options: Any) -> Iterator[Any]:
    """Let workers make empty models one after the other; in ``accelerate.big_modeling``."""
    with WORKER_MUTEX.taken(_WHAT), below(*args, **options) as given:
        yield given
    WORKER_MUTEX.await_others()
