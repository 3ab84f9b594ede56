"""Imports go down only, and each optional package stays where it belongs.

Read from the source: also imports inside of functions and those for type checkers count as seeing a layer.
An import for type checkers alone does not need the package it names.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "disco_magic"
# Who may see whom: a layer sees those below it. Two in one line never see each other.
LAYERS = [
    ["libraries", "offers", "phrases", "threads"],
    ["errors"],
    ["core"],
    ["recorder"],
    ["callers"],
    ["values"],
    ["isolation"],
    ["functions"],
    ["devices"],
    ["channels", "planes"],
    ["workers"],
    ["launchers"],
    ["loader"],
    ["session"],
    ["testing", "notebook"],
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
NOTEBOOK_ONLY = {"IPython", "ipykernel", "ipywidgets", "traitlets"}
# What only these files may import, besides the standard library.
HOMES = {
    "cupy": {"devices/find.py"},
    "mpi4py": {"planes/mpi.py", "launchers/mpi.py"},
    "tvm": {"functions/tvm_modules.py"},
    "tvm_ffi": {"functions/tvm_values.py", "functions/copies.py", "functions/tvm_modules.py"},
}


pytestmark = pytest.mark.unmeasured  # read, not executed


class Seen(NamedTuple):
    """One import: what, and whether only type checkers make it."""

    module: str
    typing_only: bool
    line: int


def _is_type_checking(node):
    test = node.test
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def imports(source, package=()):
    """Every import of a module's source, wherever it stands; `package` is where relative ones start."""
    seen = []

    def visit(node, *, typing_only):
        if isinstance(node, ast.If) and _is_type_checking(node):
            for child in node.body:
                visit(child, typing_only=True)
            for child in node.orelse:
                visit(child, typing_only=typing_only)
            return
        if isinstance(node, ast.Import):
            seen.extend(Seen(alias.name, typing_only, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join([*base, *([node.module] if node.module else [])])
            seen.extend(Seen(f"{start}.{alias.name}", typing_only, node.lineno) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, typing_only=typing_only)

    visit(ast.parse(source), typing_only=False)
    return seen


def layer_of(module):
    """The layer of ``disco_magic.core.messages``; None if it is none of ours, or the front door."""
    parts = module.split(".")
    if parts[0] != "disco_magic" or len(parts) == 1:
        return None
    return parts[1] if parts[1] in HEIGHT else None


FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
INSIDE = [path for path in FILES if str(path) != "__init__.py"]


@cache
def imports_of(path):
    package = ("disco_magic", *path.parts[:-1])
    return imports((PACKAGE / path).read_text(), package)


def _layer(path):
    return path.parts[0].removesuffix(".py")


# --- the reader itself -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b", ("a.b", False)),
        ("import a.b as c", ("a.b", False)),
        ("from a import b", ("a.b", False)),
        ("from ..x import y", ("disco_magic.x.y", False)),
        ("from . import y", ("disco_magic.core.y", False)),
        ("def f():\n    import a", ("a", False)),
        ("try:\n    import a\nexcept ImportError:\n    pass", ("a", False)),
        ("if TYPE_CHECKING:\n    import a", ("a", True)),
        ("if typing.TYPE_CHECKING:\n    from a import b", ("a.b", True)),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import a", ("a", False)),
        ("class A:\n    if True:\n        import a", ("a", False)),
    ],
)
def test_the_reader_finds_imports_wherever_they_stand(source, expected):
    (seen,) = imports(source, ("disco_magic", "core"))
    assert (seen.module, seen.typing_only) == expected


def test_every_file_belongs_to_a_layer():
    assert {_layer(path) for path in INSIDE} <= set(HEIGHT)


def test_the_picture_in_architecture_md_has_the_layers_in_their_order():
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    picture = text.partition("```\n")[2].partition("```")[0]
    named = [line.split()[0] for line in picture.splitlines() if not line.startswith(" ")]
    assert sorted(named) == sorted(HEIGHT)
    assert [HEIGHT[name] for name in named] == sorted(HEIGHT.values(), reverse=True)


def test_a_file_has_no_more_than_300_lines():
    lengths = {str(path): len((PACKAGE / path).read_text().splitlines()) for path in INSIDE}
    too_long = {path: length for path, length in lengths.items() if length > 300}
    assert not too_long, "split it: see CONTRIBUTING.md"


# --- the rules -------------------------------------------------------------------------------------
# Each looks at all files: a test for each of them, thousands, costs ten times what looking does.


def imports_in(paths, *, typing=True):
    """Path, import, and its first name, of what these files import; also for type checkers if `typing`."""
    return [
        (path, seen, seen.module.split(".")[0])
        for path in paths
        for seen in imports_of(path)
        if typing or not seen.typing_only
    ]


def outside(*layers):
    """The files of all other layers."""
    return [path for path in INSIDE if _layer(path) not in layers]


def inside(*layers):
    return [path for path in INSIDE if _layer(path) in layers]


def told(found):
    return [f"{path}, line {seen.line}: {seen.module}" for path, seen, _ in found]


def test_imports_go_down_only():
    wrong = []
    for found in imports_in(INSIDE):
        own, target = _layer(found[0]), layer_of(found[1].module)
        if target is not None and target != own and HEIGHT[target] >= HEIGHT[own]:
            wrong.append(found)
    assert told(wrong) == []


def test_nothing_below_the_notebook_goes_through_the_front_door():
    wrong = [
        found
        for found in imports_in(outside("notebook"))
        if found[1].module.startswith("disco_magic.") and layer_of(found[1].module) is None
    ]
    assert told(wrong) == []


def test_the_core_imports_the_standard_library_only():
    found = imports_in(inside("core", "errors", "phrases"))
    allowed = {"disco_magic", *sys.stdlib_module_names}
    assert told(each for each in found if each[2] not in allowed) == []


def test_the_core_knows_no_thread_lock_clock_or_io():
    forbidden = {"threading", "_thread", "time", "socket", "asyncio", "queue", "os", "io", "select"}
    assert told(each for each in imports_in(inside("core")) if each[2] in forbidden) == []


def test_only_the_notebook_layer_imports_ipython_and_widgets():
    paths = [path for path in FILES if _layer(path) != "notebook"]
    assert told(each for each in imports_in(paths, typing=False) if each[2] in NOTEBOOK_ONLY) == []


@pytest.mark.parametrize("package", HOMES)
def test_an_optional_package_is_imported_in_its_own_files_only(package):
    users = {str(path) for path in FILES if any(s.module.split(".")[0] == package for s in imports_of(path))}
    assert users <= HOMES[package]


def test_the_runtime_needs_numpy_and_the_standard_library_only():
    homes = set().union(*HOMES.values())  # of optional packages
    paths = [path for path in outside("notebook", "testing") if str(path) not in homes]
    allowed = {"disco_magic", "numpy", *sys.stdlib_module_names}
    assert told(each for each in imports_in(paths, typing=False) if each[2] not in allowed) == []


WITHOUT_IPYTHON = f"""
import importlib, pkgutil, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {NOTEBOOK_ONLY!r}:
            raise ModuleNotFoundError("blocked: " + name, name=name)

sys.meta_path.insert(0, Block())
import disco_magic
for module in pkgutil.walk_packages(disco_magic.__path__, "disco_magic."):
    if not module.name.startswith("disco_magic.notebook"):
        importlib.import_module(module.name)
with disco_magic.ThreadedSession(3) as session:
    result = session.run("allreduce(worker_id)")
    print(result)
print(sorted({NOTEBOOK_ONLY!r} & set(sys.modules)))
"""


def test_the_runtime_works_where_ipython_is_not_installed():
    command = [sys.executable, "-c", WITHOUT_IPYTHON]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["[0-2] 3", "[]", ""]
