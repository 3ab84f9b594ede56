"""Where in its step a model is that PyTorch has sharded (FSDP).

Such a model notes in which pass it is. If an error or a stop ends a step in its backward pass, it stays
there: in later steps it neither gathers parameters nor reduces gradients, and says nothing. After a cut in
its forward pass it goes on, if all workers were cut at the same place. Between micro-steps it keeps gradients
that ``zero_grad()`` does not know, and the next reduction adds them.

PyTorch has no public names for this; where one is missing, the answer is that it is unknown.
"""

from __future__ import annotations

import inspect
from enum import Enum, auto
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.values.fields import classes_of, is_module, own_attributes
from disco_magic.values.kinds import is_any_of, module_of, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME: Final = "torch.distributed.fsdp"
"""The module whose classes sharded models derive from."""
_BACKWARD: Final = "BACKWARD"
_FEW: Final = 64
_RESET: Final = "reset_iter_state"  # from 2.14 on
_AMONG: Final = ("shard_process_group", "replicate_process_group")
_ALL_OF_IT: Final = "FullyShardedDataParallel"  # FSDP's first version, which uses a class of its own


class Remedy(Enum):
    """What helps a model that is stuck; of its parts, the last one counts."""

    RESET = auto()
    """`reset_iter_state`, and a pass whose gradients are dropped: those that are kept are in it."""
    STATE = auto()
    """Its state in a new one."""
    CHECKPOINT = auto()
    """The same, but it does not give its state."""


class Progress(NamedTuple):
    """Where one worker's model is.

    Attributes:
        is_stuck: whether its next step would go wrong, whatever the other workers' models do.
        is_under_way: whether a forward pass has begun whose backward pass has not ended.
        meets: which models call the same collectives: how many parts, and on which workers each is.
        marks: what each part has noted. Models under way that differ in it call different collectives.
        keeps: whether it has gradients of micro-steps that are not reduced yet.
        remedy: what makes it whole again, as far as its version of PyTorch has it.
    """

    is_stuck: bool
    is_under_way: bool = True
    meets: tuple[object, ...] = ()
    marks: tuple[object, ...] = ()
    keeps: bool = False
    remedy: Remedy = Remedy.STATE


UNKNOWN: Final = Progress(is_stuck=True)
"""Of a sharded model that has not the names we know, which may be anywhere."""


def models_of(bound: Mapping[str, Any], _behind: object) -> dict[str, Progress]:
    """The sharded models among a worker's names, and in lists, dicts and objects there; for `examine_names`.

    Returns:
        ``"net"``, ``"nets[0]"`` or ``"trainer.net"`` -> where that model is. Of models that are sharded only
        in part, too. Names with an underscore are those of notebooks' outputs.
    """
    found = {name: progress(value) for name, value in bound.items() if not name.startswith("_")}
    for name in [name for name, each in found.items() if each is None]:
        found |= {f"{name}{place}": progress(each) for place, each in _held_by(bound[name])}
    return {name: each for name, each in found.items() if each is not None}


def _held_by(value: Any) -> list[tuple[str, Any]]:
    """What a short list or dict, or an object, holds, with its place as it is written: ``[0]``, ``.net``."""
    kind = type(value)
    if is_any_of(kind, (list, tuple, dict)):
        pairs = list(value.items() if kind is dict else enumerate(value)) if len(value) <= _FEW else []
        return [(f"[{key!r}]", each) for key, each in pairs if is_any_of(type(key), (int, str))]
    if issubclass(kind, type | ModuleType):
        return []
    return [(f".{name}", each) for name, each in own_attributes(value).items()]


def progress(value: object) -> Progress | None:
    """Where the model is; None if this is no model, or none that is sharded. Runs no code of the user's."""
    parts = [part for part in _modules_in(value) if _is_of(type(part), HOME)]
    if not parts:
        return None
    try:
        noted = [_first_version(part) if _is_first(part) else _noted(part) for part in parts]
    except (AttributeError, TypeError, ValueError, RuntimeError, AssertionError):
        return UNKNOWN
    return Progress(
        any(each.is_stuck for each in noted),
        any(each.is_under_way for each in noted),
        (len(noted), *(each.meets for each in noted)),
        tuple(each.marks for each in noted),
        any(each.keeps for each in noted),
        max((each.remedy for each in noted), key=lambda each: each.value),
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
    is_stuck = _BACKWARD in now or bool(queued)
    return Progress(is_stuck, is_under_way=bool(now), marks=(now,), remedy=Remedy.CHECKPOINT)


def _noted(part: Any) -> Progress:
    """Where a part is that `fully_shard` has made."""
    state = part._get_fsdp_state()  # noqa: SLF001
    groups = _groups(state)
    passes = [state._training_state.name, *(each._training_state.name for each in groups)]  # noqa: SLF001
    queued = state._state_ctx.post_backward_final_callback_queued  # noqa: SLF001
    return Progress(
        bool(queued) or any(_BACKWARD in each for each in passes),
        bool(getattr(state._comm_ctx, "post_forward_order", ())),  # noqa: SLF001 - before the first pass there is none
        tuple(map(_who, groups)),
        tuple((each._training_state.name, each._sharded_state.name) for each in groups),  # noqa: SLF001
        any(map(_keeps, groups)),
        Remedy.STATE if inspect.getattr_static(type(part), _RESET, None) is None else Remedy.RESET,
    )


def _keeps(group: Any) -> bool:
    """Whether a group of parameters has gradients that are still to be reduced, which zero_grad() leaves."""
    if group._partial_reduce_output is not None:  # noqa: SLF001
        return True
    whole = [getattr(each, "_unsharded_param", None) for each in group.fsdp_params]
    return any(each.unsharded_accumulated_grad is not None for each in group.fsdp_params) or any(
        each is not None and each.grad is not None for each in whole
    )


def _who(group: Any) -> object:
    """The workers that share a group of parameters; () if that cannot be found."""
    info = getattr(group, "mesh_info", None)
    among = [getattr(info, name, None) for name in _AMONG]
    if any(each is not None for each in among):
        return tuple(among)  # equal if their members are; of a mesh's part, only a worker can ask for those
    mesh = getattr(info, "mesh", None)
    return () if mesh is None else tuple(mesh.mesh.flatten().tolist())


def _groups(state: Any) -> list[Any]:
    """Its groups of parameters: several, or one or none in earlier versions of PyTorch."""
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)  # noqa: SLF001
    group = state._fsdp_param_group  # noqa: SLF001
    return [] if group is None else [group]
