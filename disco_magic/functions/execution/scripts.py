"""A file as a cell: what ``python train.py --lr 0.1`` executes, on every worker."""

from __future__ import annotations

import ast
import dis
import importlib.machinery
import os
import sys
import tokenize
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.callers.source_text import parsed
from disco_magic.errors import UsageMistake
from disco_magic.functions.execution.cells import cell_from_tree
from disco_magic.functions.execution.used_modules import imports_of, used_by
from disco_magic.functions.paths import path_text
from disco_magic.isolation import sources
from disco_magic.isolation.programs import Program
from disco_magic.phrases import near_misses, near_paths, words

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from importlib.machinery import ModuleSpec

    from disco_magic.functions.execution.cells import Cell

# Modules that start a process for each rank.
_LAUNCHERS: Final = (
    "accelerate.commands.accelerate_cli",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
    "horovod.runner.launch",
    "torch.distributed.launch",
    "torch.distributed.run",
)
# The scripts by which they are called.
_SCRIPTS: Final = {
    "accelerate": "accelerate.commands.accelerate_cli",
    "deepspeed": "deepspeed.launcher.runner",
    "horovodrun": "horovod.runner.launch",
    "torchrun": "torch.distributed.run",
}


def compile_file(path: str | os.PathLike[str], arguments: Sequence[str] = ()) -> Cell:
    """Compile a Python file, in the encoding that it declares; tracebacks show its name and lines.

    Of a folder its ``__main__.py``. The file is the main program, has its ``__file__`` and its `sys.argv`,
    and may end by ``sys.exit()``.
    """
    name = path_text("a file is run", path)
    main = os.path.join(name, "__main__.py")
    name = main if os.path.isfile(main) else name
    filename = os.path.abspath(name)
    folder = os.path.dirname(filename)
    _refuse_launcher(name, _SCRIPTS.get(os.path.basename(filename), ""), arguments)
    return _compiled(name, Program((name, *arguments), filename, folder, folder))


def compile_module(name: str, arguments: Sequence[str] = ()) -> Cell:
    """Compile a module, or the ``__main__`` of a package, like `compile_file`: ``python -m name``.

    It is searched for in the working directory of the process, and then where modules are imported from. The
    package that it is in is imported when it is executed, not before.

    Raises:
        UsageMistake: there is no such module, it has no source, or it starts processes for ranks, as torchrun
            does.
        SyntaxError: with the line in the file.
    """
    found, here = find_module(name), os.getcwd()
    _refuse_launcher(name, found.name.removesuffix(f".{MAIN}"), arguments)
    label = found.path.removeprefix(os.path.join(here, ""))
    return _compiled(label, Program((found.path, *arguments), found.path, here, found.root, found.name))


def _refuse_launcher(label: str, module: str, arguments: Sequence[str]) -> None:
    """Refuse to execute, on every worker, what starts a process for each rank."""
    if module not in _LAUNCHERS or (module.endswith("_cli") and "launch" not in arguments):
        return
    rest = next((at for at, each in enumerate(arguments) if str(each).endswith(".py")), None)
    program = "the program itself" if rest is None else " ".join(map(str, arguments[rest:]))
    raise UsageMistake(
        f"{label} would start its processes once on every worker, and nothing was run; run "
        f"{program} instead: its ranks are the workers"
    )


def _compiled(label: str, program: Program) -> Cell:
    for each in program.argv[1:]:
        if not isinstance(each, str):
            raise UsageMistake(
                f"{label!r} was not run: its argument {each!r} is not text; pass each word by itself, as in "
                "sys.argv: '--lr', '0.1'"
            )
    try:
        with tokenize.open(program.path) as file:
            source = file.read()
    except FileNotFoundError:
        folder, name = os.path.split(program.path)
        where = f"no file {name!r} in {folder!r}" if os.path.isdir(folder) else f"no folder {folder!r}"
        hint = near_paths(program.path)
        raise UsageMistake(f"{label!r} cannot be run: there is {where}{hint and f'; {hint}'}") from None
    except (OSError, UnicodeError, SyntaxError) as reason:
        raise UsageMistake(f"{label!r} cannot be run: {words(reason)}") from None
    tree = parsed(source, program.path)
    _tell_place(tree, program)
    cell = cell_from_tree(tree, source=source, filename=program.path, label=label, show_last=False)
    return replace(cell, program=program)


def refresh(cell: Cell, is_reloaded: Callable[[str], bool], *, reload: bool) -> str:
    """Before a program runs: with `reload`, forget the modules beside it; say which have changed, or "".

    `is_reloaded`: as for `stale_imports`.
    """
    if cell.program is None:
        return ""
    folder = cell.program.sources
    if reload:
        sources.forget(folder)
    sources.note_all(folder)
    changed = sources.changed(folder)
    if not changed:
        return ""
    used = used_by(f"{cell.program.package}\n{cell.source}", sources.imported())
    stale = [name for name in changed if name in used and not is_reloaded(name)]
    return _said([os.path.relpath(changed[name], folder) for name in stale])


def stale_imports(cell: Cell, is_reloaded: Callable[[str], bool]) -> str:
    """Say which modules that a cell itself imports have changed since they were imported; "" if none.

    Args:
        cell: the cell.
        is_reloaded: whether a front end reloads a module by itself. It patches modules in place, which
            cannot be seen here.
    """
    if "import" not in cell.source:
        return ""  # as in most cells
    codes = cell.codes
    named = frozenset().union(*map(imports_of, codes))
    if not named or any("reload" in code.co_names for code in codes):
        return ""  # or the cell does it
    changed = sources.changed("", named)
    stale = [name for name in changed if not is_reloaded(name)]
    if not stale:
        return ""  # before the cell is disassembled again
    said = _said([os.path.relpath(changed[name]) for name in stale])
    steps = list(chain.from_iterable(map(dis.get_instructions, codes)))
    bound = {step.argval for step in steps if step.opname == "STORE_NAME"}
    again = ", ".join(f"importlib.reload({_found(name, bound)})" for name in stale)
    then = ", then import from it again" if any(step.opname == "IMPORT_FROM" for step in steps) else ""
    return f"{said}; {again} in a cell imports the new source{then}"


def _found(name: str, bound: Container[str]) -> str:
    """How a cell that has bound these names refers to a module; it may have imported only from it."""
    return name if name.partition(".")[0] in bound else f"sys.modules[{name!r}]"


def _said(files: list[str]) -> str:
    if not files:
        return ""
    have, it = ("has", "it was") if len(files) == 1 else ("have", "they were")
    return f"{', '.join(files)} {have} changed since {it} imported; the imported version is still used"


def _tell_place(tree: ast.Module, program: Program) -> None:
    """Bind what a module has in the first possible statements, without adding a line."""
    package = program.package or None
    place = sum(_has_to_be_first(number, each) for number, each in enumerate(tree.body))
    names = {"__file__": program.path, "__package__": package}
    if ast.get_docstring(tree, clean=False) is None:
        names["__doc__"] = None
    tree.body[place:place] = ast.parse("; ".join(f"{name} = {value!r}" for name, value in names.items())).body


def _has_to_be_first(number: int, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return not number and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


MAIN = "__main__"


class FoundModule(NamedTuple):
    """A module that can be executed.

    Attributes:
        name: the name for importing it; for a package, that of its ``__main__``.
        path: the path of its source.
        root: the folder that contains it or its outermost package.
    """

    name: str
    path: str
    root: str


def find_module(name: str) -> FoundModule:
    """Find the module of that name; for a package, its ``__main__``."""
    is_text = isinstance(name, str)
    if not is_text or not all(map(str.isidentifier, name.split("."))):
        hint = f"; {name!r} without -m runs a file" if is_text and os.path.exists(name) else ""
        raise UsageMistake(f"{name!r} is not the name of a module: write package.module{hint}")
    first, *inner = name.split(".")
    spec, known = _outermost(first), first
    if spec is None:
        hint = _like(first, [os.getcwd()])
        raise UsageMistake(f"there is no module {first!r} in {os.getcwd()!r} or on the import path{hint}")
    root = os.path.dirname(_place_of(spec))
    for part in inner:
        spec, known = _beneath(spec, known, part), f"{known}.{part}"
    if spec.submodule_search_locations is not None:
        spec, known = _beneath(spec, known, MAIN), f"{known}.{MAIN}"
    path = spec.origin or ""
    if not path.endswith(tuple(importlib.machinery.SOURCE_SUFFIXES)):
        raise UsageMistake(f"{known!r} has no source that could be run: it is {path or 'no file'}")
    return FoundModule(known, os.path.abspath(path), os.path.abspath(root))


def _outermost(name: str) -> ModuleSpec | None:
    here = importlib.machinery.PathFinder.find_spec(name, [os.getcwd()])
    if here is not None and here.loader is not None:
        return here
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(name, None)
        if spec is not None:
            return spec
    return here  # a folder without ``__init__.py``


def _place_of(spec: ModuleSpec) -> str:
    """The folder of a package, or the file of any other module."""
    folders = spec.submodule_search_locations
    return next(iter(folders), "") if folders is not None else spec.origin or ""


def _beneath(spec: ModuleSpec, known: str, part: str) -> ModuleSpec:
    folders: Sequence[str] | None = spec.submodule_search_locations
    if folders is None:
        raise UsageMistake(f"there is no module '{known}.{part}': {known!r} is a module, not a package")
    # By its last name: with its full name, the packages around it would have to be imported.
    found = importlib.machinery.PathFinder.find_spec(part, list(folders))
    if found is None and part == MAIN:
        raise UsageMistake(f"{known!r} is a package without {MAIN}.py: name a module in it")
    if found is None:
        where = f"the package {known!r}, {', '.join(folders)}{_like(part, folders)}"
        raise UsageMistake(f"there is no module {part!r} in {where}")
    return found


def _like(name: str, folders: Sequence[str]) -> str:
    """``; did you mean 'a'?`` for modules in folders."""
    import pkgutil  # only for misspelt names

    hint = near_misses(name, (each.name for each in pkgutil.iter_modules(folders)))
    return f"; {hint}" if hint else ""
