"""Where in its step a model is that PyTorch has sharded (FSDP).

Such a model notes in which pass it is. If an error or a stop ends a step in its backward pass, it stays
there: in later steps it neither gathers parameters nor reduces gradients, and says nothing. After a cut in
its forward pass it goes on, if all workers were cut at the same place.

PyTorch has no public names for this; where one is missing, the answer is that it is unknown.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.values.fields import classes_of, is_module, own_attributes
from disco_magic.values.kinds import module_of, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME: Final = "torch.distributed.fsdp"
"""The module whose classes sharded models derive from."""
_BACKWARD: Final = "BACKWARD"
_ALL_OF_IT: Final = "FullyShardedDataParallel"  # FSDP's first version, which uses a class of its own


class Progress(NamedTuple):
    """Where one worker's model is.

    Attributes:
        is_stuck: whether its next step would go wrong, whatever the other workers' models do.
        is_under_way: whether a forward pass has begun whose backward pass has not ended.
        meets: which models call the same collectives: how many parts, and on which workers each is.
        marks: what each part has noted. Models under way that differ in it call different collectives.
    """

    is_stuck: bool
    is_under_way: bool = True
    meets: tuple[object, ...] = ()
    marks: tuple[object, ...] = ()


UNKNOWN: Final = Progress(is_stuck=True)
"""Of a sharded model that has not the names we know, which may be anywhere."""


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
    """Where the model is; None if this is no model, or none that is sharded. Runs no code of the user's."""
    parts = [part for part in _modules_in(value) if _is_of(type(part), HOME)]
    if not parts:
        return None
    try:
        noted = [_first_version(part) if _is_first(part) else _noted(part) for part in parts]
    except (AttributeError, TypeError, AssertionError):
        return UNKNOWN
    return Progress(
        any(each.is_stuck for each in noted),
        any(each.is_under_way for each in noted),
        (len(noted), *(each.meets for each in noted)),
        tuple(each.marks for each in noted),
    )


def _is_of(kind: type, home: str) -> bool:
    """Whether one of its base classes comes from there."""
    return any(module_of(each).startswith(home) for each in classes_of(kind))


def _is_first(part: object) -> bool:
    return any(name_of(each) == _ALL_OF_IT for each in classes_of(type(part)))


def _modules_in(value: object) -> list[Any]:
    """A PyTorch module and all in it, each once; [] for anything else."""
    found: dict[int, Any] = {}
    rest = [value]
    while rest:
        each = rest.pop()
        if id(each) not in found and is_module(type(each)):
            found[id(each)] = each
            inner = own_attributes(each).get("_modules")
            rest += inner.values() if type(inner) is dict else ()
    return list(found.values())


def _first_version(part: Any) -> Progress:
    """Where a part of FSDP's first version is, which refuses to begin anew in the midst of a forward pass."""
    handle = part._handle  # noqa: SLF001 - see the module's docstring, here and below
    now = handle._training_state.name if handle else ""  # noqa: SLF001
    queued = getattr(part, "_post_backward_callback_queued", False)  # only the outermost has it
    return Progress(_BACKWARD in now or bool(queued), is_under_way=bool(now), marks=(now,))


def _noted(part: Any) -> Progress:
    """Where a part is that `fully_shard` has made."""
    state = part._get_fsdp_state()  # noqa: SLF001
    groups = _groups(state)
    passes = [state._training_state.name, *(each._training_state.name for each in groups)]  # noqa: SLF001
    queued = state._state_ctx.post_backward_final_callback_queued  # noqa: SLF001
    return Progress(
        bool(queued) or any(_BACKWARD in each for each in passes),
        bool(state._comm_ctx.post_forward_order),  # noqa: SLF001
        tuple(map(_ranks, groups)),
        tuple((each._training_state.name, each._sharded_state.name) for each in groups),  # noqa: SLF001
    )


def _ranks(group: Any) -> tuple[int, ...]:
    """The workers that share a group of parameters; () if that cannot be found."""
    mesh = getattr(getattr(group, "mesh_info", None), "mesh", None)
    return () if mesh is None else tuple(mesh.mesh.flatten().tolist())


def _groups(state: Any) -> list[Any]:
    """Its groups of parameters: several, or one or none in earlier versions of PyTorch."""
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)  # noqa: SLF001
    group = state._fsdp_param_group  # noqa: SLF001
    return [] if group is None else [group]
