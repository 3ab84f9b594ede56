"""Names of modules that callers give: what workers import for themselves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from collections.abc import Iterable

OF_USER: Final = "."
"""In the place of a name: all modules that are no library's, neither Python's nor an installed package's."""
# What changes them for workers is there once, or they are the runtime itself.
_ONE: Final = ("disco_magic", "IPython", "ipykernel", "numpy", "cupy", "torch", "jax", "jaxlib", "matplotlib")


def module_names(given: Iterable[str] | str) -> tuple[str, ...]:
    """Names of packages and modules, each once; as text with commas between them.

    Raises:
        UsageMistake: one is no name, or is a part of a package; or there can be only one such module.
    """
    try:
        asked = given.split(",") if isinstance(given, str) else list(given)
    except TypeError:
        raise UsageMistake(f"own_modules is {given!r}, expected names of modules") from None
    names = [each.strip() if isinstance(each, str) else each for each in asked]
    for name in filter(None, names):
        if not isinstance(name, str) or (name != OF_USER and not name.isidentifier()):
            raise UsageMistake(
                f"own_modules has {name!r}; expected names of packages or modules without dots, or "
                f"{OF_USER!r} for all that are no library's"
            )
        if name in sys.stdlib_module_names or name in _ONE:
            raise UsageMistake(f"own_modules has {name!r}, of which a process can have only one")
    return tuple(dict.fromkeys(filter(None, names)))
