"""A file as a cell: what ``python train.py --lr 0.1`` executes, on every worker."""

from __future__ import annotations

import ast
import dis
import os
import tokenize
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from disco_magic.callers.source_text import parsed
from disco_magic.errors import UsageMistake
from disco_magic.functions.execution.cells import cell_from_tree
from disco_magic.functions.execution.found_modules import MAIN, find_module
from disco_magic.functions.execution.used_modules import imports_of, used_by
from disco_magic.isolation import sources
from disco_magic.isolation.programs import Program
from disco_magic.phrases import near_paths, words

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

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

    Raises:
        UsageMistake: it cannot be read.
        SyntaxError: with the line in the file.
    """
    name = os.fspath(path)
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
    used = used_by(cell.source, cell.program.package, sources.imported())
    stale = [name for name in changed if name in used and not is_reloaded(name)]
    return _said([os.path.relpath(changed[name], folder) for name in stale])


def stale_imports(cell: Cell, is_reloaded: Callable[[str], bool]) -> str:
    """Say which modules that a cell itself imports have changed since they were imported; "" if none.

    Args:
        cell: the cell.
        is_reloaded: whether a front end reloads a module by itself. It patches modules in place, which
            cannot be seen here.
    """
    codes = cell.codes
    named = frozenset().union(*map(imports_of, codes))
    if not named or any("reload" in code.co_names for code in codes):
        return ""  # or the cell does it
    changed = sources.changed("")
    stale = [name for name in changed if name in named and not is_reloaded(name)]
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
