"""Where in its step a model is that PyTorch has sharded (FSDP).

Such a model notes in which pass it is. If an error or a stop ends a step in its backward pass, it stays
there: in later steps it neither gathers parameters nor reduces gradients, and says nothing. After a cut in
its forward pass it goes on, if all workers were cut at the same place.

PyTorch has no public names for this; where one is missing, the answer is that it is unknown.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from disco_magic.values.fields import own_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOME: Final = "torch.distributed.fsdp"
"""The module whose classes sharded models derive from."""
_MODULES: Final = ("torch.nn.modules.", HOME)
_BACKWARD: Final = "BACKWARD"
_ALL_OF_IT: Final = "FullyShardedDataParallel"  # FSDP's first version, which uses a class of its own


class Progress(NamedTuple):
    """Where one worker's model is.

    Attributes:
        is_stuck: whether its next step would go wrong, whatever the other workers' models do.
        marks: what each part has noted. Models that differ in it call different collectives.
    """

    is_stuck: bool
    marks: tuple[object, ...]


UNKNOWN: Final = Progress(is_stuck=True, marks=())
"""Of a model that has not the names we know, which may be anywhere."""


def models_of(bound: Mapping[str, Any], _behind: object) -> dict[str, Progress]:
    """The sharded models among a worker's names and the attributes of objects there; for `examine_names`.

    Returns:
        ``"net"`` or ``"trainer.net"`` -> where that model is. Of models that are sharded only in part, too.
    """
    found = {name: progress(value) for name, value in bound.items()}
    for name, value in bound.items():
        if found[name] is None and not issubclass(type(value), type | ModuleType):
            found |= {f"{name}.{part}": progress(each) for part, each in own_attributes(value).items()}
    return {name: each for name, each in found.items() if each is not None}


def progress(value: object) -> Progress | None:
    """Where the model is; None if this is no model, or none that is sharded. Changes nothing."""
    if not any(str(each.__module__).startswith(_MODULES) for each in type(value).__mro__):
        return None
    try:
        noted = [tuple(_noted(part)) for part in cast("Any", value).modules() if _is_sharded(part)]
    except (AttributeError, TypeError, AssertionError):
        return UNKNOWN
    if not noted:
        return None
    return Progress(any(mark is True for marks in noted for mark in marks), tuple(noted))


def _is_sharded(value: object) -> bool:
    """Whether one of its base classes is FSDP's; names are not compared."""
    return any(str(each.__module__).startswith(HOME) for each in type(value).__mro__)


def _noted(part: Any) -> Iterator[object]:
    """What a part has noted; True for what its next step would trip over."""
    if any(each.__name__ == _ALL_OF_IT for each in type(part).__mro__):
        handle = part._handle  # noqa: SLF001 - see the module's docstring, here and below
        passes = [handle._training_state.name] if handle else []  # noqa: SLF001
        yield from (part.training_state.name, *passes)
        yield any(_BACKWARD in each for each in passes)
        yield getattr(part, "_post_backward_callback_queued", False)  # only the outermost has it
        return
    state = part._get_fsdp_state()  # noqa: SLF001
    groups = _groups(state)
    passes = [state._training_state.name, *(each._training_state.name for each in groups)]  # noqa: SLF001
    yield from passes
    yield from (each._sharded_state.name for each in groups)  # noqa: SLF001
    yield any(_BACKWARD in each for each in passes)
    yield bool(state._state_ctx.post_backward_final_callback_queued)  # noqa: SLF001


def _groups(state: Any) -> list[Any]:
    """Its groups of parameters: several, or one or none in earlier versions of PyTorch."""
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)  # noqa: SLF001
    group = state._fsdp_param_group  # noqa: SLF001
    return [] if group is None else [group]
