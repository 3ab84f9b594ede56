"""The compiler's stance, ``with torch.compiler.set_stance(...):``, and checkpoints' early stop, per worker.

PyTorch has each in a global variable, which a ``with`` block sets and restores; see `own_values`.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import is_given_up
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.isolation.pytorch.own_values import OWN_VALUES, while_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

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
        own = OWN_VALUES.mine()
        if own is None:
            with setting.below(enable):
                yield
        else:
            yield from while_set(own, _EARLY_STOP, enable)

    class Frame(module._CheckpointFrame):  # type: ignore[name-defined,misc]  # noqa: SLF001 - what reads it
        def __init__(self, recompute: Any, early_stop: Any, *rest: Any, **options: Any) -> None:
            own = (OWN_VALUES.mine() or {}).get(_EARLY_STOP)
            super().__init__(recompute, early_stop if own is None else own, *rest, **options)

    setting = Replaced(module, "set_checkpoint_early_stop", set_early_stop)
    return replace_all([setting, Replaced(module, "_CheckpointFrame", Frame)])
