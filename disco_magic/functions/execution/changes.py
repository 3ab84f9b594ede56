"""The changes made in libraries, once they are imported, while any session runs.

What few sessions need is named as text, and imported with the library. A module that declares settings of
programs (`PerProgram`) cannot be: a cell that begins before notes only those that there are.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from disco_magic.callers.source_text import fit_linecache
from disco_magic.functions.execution.unheard import fit_unraisable
from disco_magic.functions.process_groups.work import HOME
from disco_magic.isolation import process_hooks
from disco_magic.isolation.adopted import fit_threads
from disco_magic.isolation.child_processes import (
    fit_alias,
    fit_execv,
    fit_joblib,
    fit_launching,
    fit_pool,
    fit_spawn,
    fit_start_methods,
    fit_subprocess,
    fit_system,
)
from disco_magic.isolation.imported import Libraries, deferred, each_of, told_if_unknown
from disco_magic.isolation.lazy_imports import fit_lazy_imports
from disco_magic.isolation.main_module import fit_doctest, fit_main
from disco_magic.isolation.own_builtins import fit_builtins
from disco_magic.isolation.own_exits import fit_register, fit_unregister
from disco_magic.isolation.own_folders import fit_folders
from disco_magic.isolation.own_functions import fit_copy
from disco_magic.isolation.own_loggers import fit_clearing, fit_configuring, fit_loggers
from disco_magic.isolation.own_signals import fit_signal
from disco_magic.isolation.own_sys import fit_sys
from disco_magic.isolation.own_warnings import fit_capturing, fit_warnings
from disco_magic.isolation.pytorch.compiler import fit_compile_lock, fit_compiler, fit_limits, fit_resets
from disco_magic.isolation.pytorch.hooks import fit_hooks
from disco_magic.isolation.pytorch.losses import fit_losses
from disco_magic.isolation.pytorch.modes import fit_dispatching
from disco_magic.isolation.pytorch.own_values import fit_early_stop, fit_forward, fit_replicate, fit_stances
from disco_magic.isolation.pytorch.switches import fit_allowed, fit_folding, fit_switches
from disco_magic.isolation.random_states import fit_cupy, fit_numpy, fit_random
from disco_magic.isolation.shared_imports import fit_imports, fit_reload

_of_compiled = partial(deferred, "disco_magic.isolation.compiled_names")
_of_forward = partial(deferred, "disco_magic.isolation.pytorch.forward")
_of_random = partial(deferred, "disco_magic.isolation.pytorch.random")
_of_shared = partial(deferred, "disco_magic.isolation.shared_states")
_of_storage = partial(deferred, "disco_magic.isolation.pytorch.storage")
_of_tracing = partial(deferred, "disco_magic.isolation.pytorch.tracing")
_LIGHTNING: Final = _of_shared("telling", "Trainer", "__init__", "lightning_fabric", "lightning_utilities")
_SHARED: Final = "all workers have one random state in common in this version of"

CHANGES: Final = Libraries(
    {
        "builtins": each_of(process_hooks.note_hooks, fit_builtins),
        "sys": each_of(fit_sys, fit_unraisable, fit_lazy_imports),
        "threading": fit_threads,
        "copy": told_if_unknown(
            fit_copy, "functions of cells in lists and objects keep the sender's registers in this Python"
        ),
        "__main__": fit_main,
        "importlib": fit_reload,
        "importlib._bootstrap": fit_imports,
        "doctest": fit_doctest,
        "linecache": fit_linecache,
        "multiprocessing": fit_alias,
        "multiprocessing.spawn": fit_spawn,
        "multiprocessing.pool": fit_pool,
        "multiprocessing.popen_fork": fit_launching,
        "joblib.executor": fit_joblib,
        "subprocess": fit_subprocess,
        "os": each_of(fit_system, fit_execv, fit_folders),
        "multiprocessing.context": told_if_unknown(
            fit_start_methods, "all workers share one start method for processes in this version of Python"
        ),
        "signal": fit_signal,
        "atexit": each_of(fit_register, fit_unregister),
        "random": told_if_unknown(fit_random, f"{_SHARED} Python"),
        "numpy.random": told_if_unknown(fit_numpy, f"{_SHARED} NumPy"),
        "cupy.random._generator": told_if_unknown(fit_cupy, f"{_SHARED} CuPy"),
        "logging": each_of(
            told_if_unknown(
                fit_loggers, "all workers share one configuration of loggers in this version of Python"
            ),
            fit_capturing,
        ),
        "warnings": fit_warnings,
        "logging.config": each_of(fit_clearing, fit_configuring),
        "accelerate.state": _of_shared("telling", "PartialState", "__init__", "transformers"),
        "accelerate.big_modeling": _of_shared("fit_accelerate_models"),
        "transformers.modeling_utils": _of_shared("fit_transformers"),
        "lightning.pytorch.trainer.trainer": _LIGHTNING,
        "pytorch_lightning.trainer.trainer": _LIGHTNING,
        "megatron.core.parallel_state": _of_shared("telling", "", "initialize_model_parallel"),
        "numba.core.interpreter": _of_compiled("fit_numba"),
        "numba.core.typeinfer": _of_compiled("fit_numba_types"),
        "numba.core.pylowering": _of_compiled("fit_numba_objects"),
        "numba.core.caching": _of_compiled("fit_numba_cache"),
        "hydra.core.global_hydra": _of_shared(
            "telling", "GlobalHydra", "initialize", "omegaconf", kept="a configuration"
        ),
        "hydra._internal.utils": each_of(_of_shared("fit_hydra_tasks"), _of_shared("fit_hydra_frames")),
        "mpi4py.MPI": _of_shared("fit_mpi"),
        "wandb": _of_shared("telling", "", "init", kept="the run", silent=1),
        "torch": each_of(told_if_unknown(_of_random("fit_torch_random"), f"{_SHARED} PyTorch"), fit_switches),
        HOME: told_if_unknown(
            deferred("disco_magic.functions.process_groups.worlds", "fit_worlds"),
            "with this version of PyTorch workers have no process groups of their own",
        ),
        "torch.distributed.rpc": _of_shared("fit_rpc"),
        "torch.distributed": told_if_unknown(
            deferred("disco_magic.functions.process_groups.backend", "fit_barriers"),
            "workers have no monitored_barrier with this version of PyTorch",
        ),
        "torch._library.custom_ops": told_if_unknown(
            deferred("disco_magic.isolation.pytorch.operators", "fit_operators"),
            "workers that define the same operator disturb each other in this version of PyTorch",
        ),
        "torch.utils._python_dispatch": fit_dispatching,
        "torch.fx._symbolic_trace": _of_tracing("fit_tracing"),
        "torch.export._trace": deferred("disco_magic.isolation.pytorch.exporting", "fit_exporting"),
        "torch.jit._trace": _of_tracing("fit_scripts", "_trace_impl"),
        "torch.jit._recursive": _of_tracing("fit_scripts", "create_script_module"),
        "torch.autograd.forward_ad": _of_forward("fit_levels"),
        "torch._functorch.eager_transforms": _of_forward("fit_nesting"),
        "torch.nn.modules.module": fit_hooks,
        "torch.optim.optimizer": fit_hooks,
        "torch.nn.parallel.distributed": fit_forward,
        "torch.distributed._composable.replicate": fit_replicate,
        "torch.distributed.tensor.parallel.loss": fit_losses,
        "torch.autograd.profiler": told_if_unknown(
            deferred("disco_magic.isolation.pytorch.profiler", "fit_profilers"),
            "profiling on several workers crashes the process in this version of PyTorch",
        ),
        "torch.storage": _of_storage("fit_storage"),
        "torch.distributed.fsdp._flat_param": _of_storage("fit_flat_parameters"),
        "torch.distributed.fsdp._debug_utils": _of_storage("fit_profiler"),
        "torch._dynamo": fit_resets,
        "torch._dynamo.trace_rules": each_of(fit_compiler, _of_random("fit_graphs"), fit_allowed),
        "torch._dynamo.variables.torch": fit_folding,
        "torch._dynamo.decorators": fit_stances,
        "torch.utils.checkpoint": fit_early_stop,
        "torch._dynamo.convert_frame": each_of(fit_compile_lock, fit_limits),
    },
    # Each worker may have its own copy of these. What the first and the last change is shared all the same.
    also_own=("accelerate.big_modeling", "hydra._internal.utils", "transformers.modeling_utils"),
)
"""Python's own modules first, which everybody uses; then libraries, PyTorch above all."""
