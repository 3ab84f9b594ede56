"""IPython's completer, applied to the names of one worker.

It looks at values under IPython's policy ``limited``: no calls, no properties, no ``__getattr__``.
"""

from __future__ import annotations

import builtins
import types
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import IPCompleter, provisionalcompleter
from IPython.utils.strdispatch import StrDispatch

from disco_magic.notebook.completing.offer import UNKNOWN, Offer
from disco_magic.values.frames import is_frame

if TYPE_CHECKING:
    from disco_magic.notebook.completing.offer import Request

_ARGUMENTS: Final = "IPCompleter.python_func_kw_matcher"  # see `arguments`
_KEYS: Final = "_ipython_key_completions_"


def ipython_offers(bound: dict[str, Any], behind: dict[str, Any], request: Request) -> list[Offer]:
    """The offers of IPython without Jedi: names, attributes, keys, files, characters."""
    settings = request.settings._asdict() | {"use_jedi": False}
    settings["disable_matchers"] = [*request.settings.disable_matchers, _ARGUMENTS]
    make: Any = _Completer
    completer = make(shell=_NO_MAGICS, namespace=bound, global_namespace=behind, **settings)
    completer.custom_completers = _imports()
    with provisionalcompleter():
        found = list(completer.completions(request.text, request.offset))
    offers = {
        each.text: Offer(each.start, each.end, each.text, each.type or UNKNOWN, each.signature or "")
        for each in found
    }
    for text in completer.matches if found else ():  # not `found`, which ends after 500
        offers.setdefault(text, next(reversed(offers.values()))._replace(text=text))
    return list(offers.values())


class _Completer(IPCompleter):
    """IPython's completer, but more careful where it would call methods of objects."""

    def _extract_code(self, line: str) -> str:
        """Return the line: it has no magic to remove. IPython's method fails on a line of blanks."""
        return line

    def global_matches(self, text: str, *context: Any) -> list[str]:
        """The names that begin with `text`, without the process's builtins that workers do not have.

        That is the builtin ``exit``, which IPython takes away while a cell runs.
        """
        gone = vars(builtins).keys() - self.namespace.keys() - self.global_namespace.keys()
        return [name for name in super().global_matches(text, *context) if name not in gone]

    @staticmethod
    def _get_keys(obj: Any) -> list[Any]:
        """The keys after ``name[``: from a class's own method, or of a dictionary, data frame or array."""
        kind = type(obj)
        own = _in_class(kind, _KEYS)
        try:
            if own is not None:
                return list(own.__get__(obj, kind)())
            if issubclass(kind, dict):
                return list(dict.keys(obj))
            if is_frame(kind):
                return list(obj.columns)
            return [] if _asks_itself(kind) else list(IPCompleter._get_keys(obj))  # noqa: SLF001 - it is overridden here
        except Exception:  # noqa: BLE001 - a method of the user's, which is there to be asked
            return []


def _in_class(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _asks_itself(kind: type) -> bool:
    """Whether a class customises attribute access."""
    own = _in_class(kind, "__getattribute__")
    return _in_class(kind, "__getattr__") is not None or type(own) is types.FunctionType


# Workers' cells have no magics, and IPython's completer asks its shell for nothing else.
_NO_MAGICS: Final = types.SimpleNamespace(
    magics_manager=types.SimpleNamespace(lsmagic=lambda: {"line": {}, "cell": {}})
)


def _imports() -> Any:
    """IPython's completion of module names, which is installed by the shell, not by the completer."""
    from IPython.core import completerlib

    complete: Any = completerlib.module_completion
    dispatch = StrDispatch()  # type: ignore[no-untyped-call]  # IPython's
    for word in ("import", "from"):
        dispatch.add_s(word, lambda event: complete(event.line))
    return dispatch
