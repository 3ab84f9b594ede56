"""Names of modules that callers give: modules that each worker imports separately."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from collections.abc import Iterable

OF_USER: Final = "."
"""In place of a name: all modules that belong neither to Python nor to an installed package."""
# What we change in them for workers exists only once, or they are the runtime itself.
_ONE: Final = ("disco_magic", "IPython", "ipykernel", "numpy", "cupy", "torch", "jax", "jaxlib", "matplotlib")


def module_names(given: Iterable[str] | str) -> tuple[str, ...]:
    """Names of packages and modules, each once; text has commas between them.

    Raises:
        UsageMistake: one is no name, or is a part of a package; or a process can have only one such module.
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
