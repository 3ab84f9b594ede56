"""Models that are made or loaded by transformers and accelerate, one worker after the other.

While they do that, these libraries set the process's default dtype, and replace functions that make and fill
parameters, for all threads. Several workers at once would get parameters of another dtype, or none, and what
the last one restores is not what was there before.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import in_place_of
from disco_magic.isolation.imported import each_of
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
