"""Warning filters that a worker sets are its own: ``filterwarnings("ignore")`` on all ranks but one.

The process has one list of filters, and ``with warnings.catch_warnings():`` replaces it and then restores
what it found. With several threads at once, one finds another's list and restores it long after the other has
left its block: from then on warnings are errors everywhere, or are never seen again. Libraries use it
everywhere.

So what a worker sets is its own until it ends; what a program sets ends with the program, and what a stopped
cell sets with the cell. A worker that has set nothing has the process's filters, including later changes by
the notebook. How warnings are shown, and what ``record=True`` keeps, is also each worker's own.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any, Final, cast

from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.module_classes import ModuleOfWorkers, exchange
from disco_magic.callers.per_worker import PerProgram
from disco_magic.callers.replaced import Replaced, in_place_of, replace_all, replacing
from disco_magic.callers.sites import label_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker

_FILTERS: Final = "filters"
_PUBLIC: Final = "showwarning"
_BEHIND: Final = "_showwarnmsg_impl"
_NAMES: Final = frozenset({_FILTERS, _PUBLIC, _BEHIND})
_NONE: Final = object()
_WHOSE: Final = "_disco_whose"  # attribute of a `catch_warnings` object
_BEFORE: Final = "before they were logged"
# Keyed by these names. Lists of filters are replaced, never changed: a program begins with the cell's list.
_OWN: Final = PerProgram(passing=True)


def _mine() -> dict[str, Any]:
    """Return the calling worker's own settings; empty outside of workers."""
    me = calling_worker()
    return {} if me is None else me.belongings.get(_OWN, {})


def _assign(me: CallingWorker, name: str, value: Any) -> None:
    """Set one setting of a worker; `_NONE`: to the process's."""
    if value is _NONE:
        _OWN.of(me).pop(name, None)
    else:
        _OWN.of(me)[name] = value


class WarningsOfWorkers(ModuleOfWorkers):
    """The class of `warnings` while any session runs. Python's C code reads its attributes, too."""

    def __getattribute__(self, name: str) -> Any:
        if name in _NAMES:
            mine = _mine()
            if name in mine:
                return mine[name]
        return types.ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        me = calling_worker()
        if me is None or name not in _NAMES:
            types.ModuleType.__setattr__(self, name, value)
        elif not is_given_up():
            _assign(me, name, value if value is not vars(self)[name] else _NONE)


def fit_warnings(module: ModuleType) -> Callable[[], None] | None:
    """Let workers have filters of their own; `module` is ``warnings``."""
    if sys.version_info >= (3, 14):
        return None  # rewritten there; thread-safe with: python -X context_aware_warnings
    undo = replace_all([*_setting(module), _showing(module), _wording(module), *_blocks(module)])
    put_back = exchange(module, WarningsOfWorkers)

    def take() -> None:
        put_back()
        undo()

    return take


def _setting(module: ModuleType) -> list[Replaced]:
    """Replace the functions that add a filter, and that remove all."""
    names = vars(module)

    @replacing(module, "_add_filter")
    def add(*item: Any, append: bool) -> None:
        me = calling_worker()
        if me is None:
            add.below(*item, append=append)
        elif not is_given_up():
            own = _OWN.of(me)
            others = [each for each in own.get(_FILTERS, names[_FILTERS]) if append or each != item]
            own[_FILTERS] = others if item in others else [*others, item] if append else [item, *others]
            names["_filters_mutated"]()

    @replacing(module, "resetwarnings")
    def reset() -> None:
        me = calling_worker()
        if me is None:
            reset.below()
        elif not is_given_up():
            _OWN.of(me)[_FILTERS] = []
            names["_filters_mutated"]()

    return [add, reset]


def _showing(module: ModuleType) -> Replaced:
    """Replace the function that shows a warning, so that it does so in the worker's way."""
    names = vars(module)

    @replacing(module, "_showwarnmsg")
    def show(message: Any) -> None:
        mine = _mine()
        if not mine.keys() & {_PUBLIC, _BEHIND}:
            show.below(message)
            return
        public = mine.get(_PUBLIC, names[_PUBLIC])
        if public is names["_showwarning_orig"]:
            mine.get(_BEHIND, names[_BEHIND])(message)
        else:  # replaced by the user: has the public signature
            told = message.message, message.category, message.filename, message.lineno
            public(*told, message.file, message.line)

    return show


def _wording(module: ModuleType) -> Replaced:
    """Replace the function that puts a warning into words: a worker's cell is named as errors name it.

    Front ends give cells the names of files that do not exist, with the process's id in them.
    """

    @replacing(module, "_formatwarnmsg_impl")
    def put(message: Any) -> str:
        text: str = put.below(message)
        label = None if calling_worker() is None else label_of(message.filename)
        head = f"{message.filename}:{message.lineno}: "
        if label is None or not text.startswith(head):
            return text
        return f"{label}, line {message.lineno}: {text.removeprefix(head)}"

    return put


def _blocks(module: ModuleType) -> list[Replaced]:
    """Let ``with catch_warnings():`` on a worker restore what the worker had, also if that was the process's.

    A thread that was given up ends its blocks through these, whenever that is.
    """
    kind = vars(module)["catch_warnings"]

    @replacing(kind, "__enter__")
    def __enter__(block: Any) -> Any:  # noqa: N807 - no interrupt strikes in a function of this name, see `fragile`
        me = calling_worker()
        before = {} if me is None else warnings_now(me)
        given = __enter__.below(block)
        if me is not None and block._module is module:  # noqa: SLF001 - there is no public attribute
            vars(block)[_WHOSE] = me, before
        return given

    @replacing(kind, "__exit__")
    def __exit__(block: Any, *error: object) -> None:  # noqa: N807 - as above
        me, before = vars(block).pop(_WHOSE, (None, {}))
        if me is None:
            __exit__.below(block, *error)
        elif not is_given_up():
            for name in _NAMES:
                _assign(me, name, before.get(name, _NONE))
            vars(module)["_filters_mutated"]()

    return [__enter__, __exit__]


@in_place_of("captureWarnings")
def fit_capturing(below: Callable[[bool], None], capture: bool) -> None:  # noqa: FBT001 - as Python's
    """Let each worker have its warnings logged, or not; in ``logging``.

    `logging` itself notes for the whole process whether they are, and what showed them before.
    """
    me, warnings = calling_worker(), cast("Any", sys.modules["warnings"])
    if me is None or type(warnings) is not WarningsOfWorkers:  # from Python 3.14 on workers share them
        below(capture)
        return
    own = _OWN.of(me)
    if capture and _BEFORE not in own:
        own[_BEFORE] = warnings.showwarning
        warnings.showwarning = vars(sys.modules["logging"])["_showwarning"]
    elif not capture and _BEFORE in own:
        warnings.showwarning = own.pop(_BEFORE)


def warnings_now(me: CallingWorker) -> dict[str, Any]:
    """Return a copy of a worker's own settings."""
    return dict(me.belongings.get(_OWN, {}))


def filters_restored() -> None:
    """Have Python's C code look at the caller's filters anew."""
    vars(sys.modules["warnings"])["_filters_mutated"]()
