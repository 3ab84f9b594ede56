"""The DDP model whose forward pass goes on, which PyTorch's compiler asks for: each worker's own.

`DistributedDataParallel` has it in an attribute of the class, saves that when a forward pass begins, and
restores it at the end. If those of two workers overlap, the attribute stays set: every later compilation, of
anything on any worker, is split into DDP's buckets, or fails because of their sizes.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.isolation.pytorch.own_values import OWN_VALUES, while_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

_ACTIVE: Final = "_active_ddp_module"


def fit_forward(module: ModuleType) -> Callable[[], None]:
    """Let each worker have its own; `module` is ``torch.nn.parallel.distributed``."""
    model = module.DistributedDataParallel

    @contextmanager
    # As PyTorch's own: its compiler must not look into this, but compile what is called within.
    @module.torch._disable_dynamo(recursive=False)  # type: ignore[untyped-decorator]  # noqa: SLF001
    def inside(self: Any) -> Iterator[None]:
        own = OWN_VALUES.mine()
        if own is None:
            with entered.below(self):
                yield
        else:
            yield from while_set(own, _ACTIVE, self)

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
