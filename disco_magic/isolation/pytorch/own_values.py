"""What PyTorch has in a global variable while a ``with`` block lasts, for each worker.

A block notes the value that it finds, and restores that. With several workers the value found may be
another one's, and it is restored for good when that one has left. A worker's values end with its program,
and a stopped cell restores those that it has found.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import is_given_up
from disco_magic.callers.per_worker import PerProgram
from disco_magic.callers.replaced import Replaced, replace_all, replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

OWN_VALUES: Final = PerProgram(passing=True)
"""Name -> the worker's value.

Code that restores one keeps the dictionary in which it has set it. A stop, or the end of a program, puts
another one in its place, so that what a block restores when the garbage collector ends it changes nothing.
Only `_Stance` looks it up again, because PyTorch's block calls its setter: it leaves out such late calls.
"""


def _while_set(process: Replaced, name: str, value: Any) -> Iterator[None]:
    """The body of a block during which a worker has another value of that name; of `process`'s for others."""
    own = OWN_VALUES.mine()
    if own is None:
        with process.below(value):
            yield
        return
    before = own.get(name)
    try:
        own[name] = value
        yield
    finally:
        own[name] = before


_STANCE: Final = "_stance"
_EARLY_STOP: Final = "_enable_checkpoint_early_stop"


class _Stance:
    """The caller's stance, in the place of the process's; the compiler reads its attributes."""

    def __init__(self, process: Any) -> None:
        self.process = process

    @property
    def current(self) -> Any:
        """What the calling worker has set, else what the process has."""
        return (OWN_VALUES.mine() or {}).get(_STANCE, self.process)

    def set(self, stance: Any) -> Any:
        """Set the caller's; returns the former one."""
        own, former = OWN_VALUES.mine(), self.current
        if own is None:
            self.process = stance
        elif stance is self.process:
            own.pop(_STANCE, None)
        else:
            own[_STANCE] = stance
        return former

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)

    def __repr__(self) -> str:
        return repr(self.current)  # in PyTorch's errors


def fit_stances(module: ModuleType) -> Callable[[], None]:
    """Let each worker have its own stance; `module` is ``torch._dynamo.decorators``."""
    frames = sys.modules["torch._dynamo.eval_frame"]
    first = vars(frames)[_STANCE]
    stance = _Stance(first)
    running = sys.modules["torch"]._C._dynamo.eval_frame  # noqa: SLF001

    @wraps(vars(frames)["_set_stance"])
    def set_stance(given: Any) -> Any:
        if running.get_eval_frame_callback() not in (None, False):
            return setters[0].below(given)  # within compiled code it raises an error
        # A worker's block that a stop has cut off may end in another thread, when its error is collected.
        is_late = OWN_VALUES.mine() is None and isinstance(sys.exception(), GeneratorExit)
        return stance.current if is_late or is_given_up() else stance.set(given)

    setters = [Replaced(each, "_set_stance", set_stance) for each in (frames, module)]
    take = replace_all([Replaced(frames, _STANCE, stance), *setters])

    def undo() -> None:
        take()
        if vars(frames)[_STANCE] is first:
            setattr(frames, _STANCE, stance.process)  # the notebook may have set another one

    return undo


def fit_early_stop(module: ModuleType) -> Callable[[], None]:
    """Let each worker set whether checkpoints stop early; `module` is ``torch.utils.checkpoint``."""

    @contextmanager
    @wraps(vars(module)["set_checkpoint_early_stop"])
    def set_early_stop(enable: bool) -> Iterator[None]:  # noqa: FBT001 - as PyTorch's
        yield from _while_set(setting, _EARLY_STOP, enable)

    class Frame(module._CheckpointFrame):  # type: ignore[name-defined,misc]  # noqa: SLF001 - what reads it
        def __init__(self, recompute: Any, early_stop: Any, *rest: Any, **options: Any) -> None:
            own = (OWN_VALUES.mine() or {}).get(_EARLY_STOP)
            super().__init__(recompute, early_stop if own is None else own, *rest, **options)

    setting = Replaced(module, "set_checkpoint_early_stop", set_early_stop)
    return replace_all([setting, Replaced(module, "_CheckpointFrame", Frame)])


_ACTIVE: Final = "_active_ddp_module"


def fit_forward(module: ModuleType) -> Callable[[], None]:
    """Let each worker have its own DDP model whose forward pass goes on, which PyTorch's compiler asks for.

    `DistributedDataParallel` has it in an attribute of the class. If that of another worker stays set, every
    later compilation, of anything on any worker, is split into DDP's buckets, or fails because of their
    sizes. `module` is ``torch.nn.parallel.distributed``.
    """
    model = module.DistributedDataParallel

    @contextmanager
    # As PyTorch's own: its compiler must not look into this, but compile what is called within.
    @module.torch._disable_dynamo(recursive=False)  # type: ignore[untyped-decorator]  # noqa: SLF001
    def inside(self: Any) -> Iterator[None]:
        yield from _while_set(entered, _ACTIVE, self)

    @wraps(vars(model)["_get_active_ddp_module"].__func__)
    def active(cls: type) -> Any:
        own = OWN_VALUES.mine()
        return asked.below.__get__(None, cls)() if own is None else own.get(_ACTIVE)

    entered = Replaced(model, "_inside_ddp_forward", inside)
    asked = Replaced(model, "_get_active_ddp_module", classmethod(active))
    return replace_all([entered, asked])


def fit_replicate(module: ModuleType) -> Callable[[], None]:
    """The same for models of `replicate`; `module` is ``torch.distributed._composable.replicate``."""
    state, model = module._ReplicateState, module.DistributedDataParallel  # noqa: SLF001 - not public

    def hook(name: str, active: Callable[[Any], Any]) -> Replaced:
        @replacing(state, name)
        def called(self: Any, *args: Any, **options: Any) -> Any:
            own = OWN_VALUES.mine()
            if own is None:
                return called.below(self, *args, **options)
            try:
                given = called.below(self, *args, **options)
                own[_ACTIVE] = active(self)
                return given
            finally:
                setattr(model, _ACTIVE, None)  # where the hook has put it, for the notebook

        return called

    begun = hook("forward_pre_hook", lambda self: self._ddp)
    return replace_all([begun, hook("forward_post_hook", lambda _: None)])
