"""Models that are made or loaded by transformers and accelerate, one worker after the other.

While they do that, these libraries set the process's default dtype, and replace functions that make and fill
parameters, for all threads. Several workers at once would get parameters of another dtype, or none, and what
the last one restores is not what was there before.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

_LOADING: Final = ("from_pretrained", "_from_config")
# Calls with one of these load a model together with other workers, by collectives.
_TOGETHER: Final = frozenset({"tp_plan", "tp_size", "device_mesh", "distributed_config"})
_WHAT: Final = "models are made or loaded"


def fit_transformers(module: ModuleType) -> Callable[[], None]:
    """Let workers load models one after the other; `module` is ``transformers.modeling_utils``."""
    return replace_all([_one_at_a_time(module.PreTrainedModel, name) for name in _LOADING])


def _one_at_a_time(model: type, name: str) -> Replaced:
    @wraps(vars(model)[name].__func__)
    def load(cls: type, *args: Any, **options: Any) -> Any:
        together = any(options.get(each) is not None for each in _TOGETHER)
        if together:
            return replaced.below.__get__(None, cls)(*args, **options)
        with WORKER_MUTEX.taken(_WHAT):
            made = replaced.below.__get__(None, cls)(*args, **options)
        WORKER_MUTEX.await_others()  # otherwise what it makes next would be subject to others' loading
        return made

    replaced = Replaced(model, name, classmethod(load))
    return replaced


def fit_accelerate_models(module: ModuleType) -> Callable[[], None]:
    """Let workers make empty models one after the other; `module` is ``accelerate.big_modeling``."""

    @contextmanager
    @wraps(module.init_on_device)
    def init_on_device(*args: Any, **options: Any) -> Iterator[Any]:
        with WORKER_MUTEX.taken(_WHAT), replaced.below(*args, **options) as given:
            yield given
        WORKER_MUTEX.await_others()

    replaced = Replaced(module, "init_on_device", init_on_device)
    return replace_all([replaced])
