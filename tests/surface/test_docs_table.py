"""`docs/disco.md` says only what is so: its tests exist, its signatures are real, no row is missing."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import disco_magic as disco

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "disco.md"
HERE = "tests/surface"
TEST = re.compile(r"`(tests/[\w/]+\.py)?::(test_\w+)`")
CALL = re.compile(r"(session|ref|worker|disco)\.(\w+)(\(.*\))?$")

# What Disco's users can name: its session and references, what its workers register, its loader.
DISCO = re.findall(
    r"\w+",
    """
ThreadedSession ProcessSession SocketSession num_workers shutdown get_global_func call_packed
import_python_module load_vm_module empty copy_to_worker_0 copy_from_worker_0 broadcast scatter
broadcast_from_worker0 scatter_from_worker0 gather_to_worker0 allreduce allgather sync_worker sync_worker_0
sync_all debug_get_from_remote debug_copy_from init_ccl DRef DPackedFunc DModule
worker_id worker_rank world_size device bind_worker_to_cpu_core send_to_worker recv_from_worker
recv_from_worker0 send_to_next_group recv_from_prev_group
ShardLoader ShardLoaderLoad ShardLoaderLoadAll ShardLoaderLoadPresharded ShardLoaderLoadAllPresharded
ShardLoaderLoadParamOnWorker0
""",
)


class Row(NamedTuple):
    """A row of one of the document's tables."""

    line: int
    cells: tuple[str, ...]

    @property
    def tests(self):
        """Path and name of every test in the last cell; ``::test_b`` is in the file named before it."""
        found, path = [], ""
        for file, name in TEST.findall(self.cells[-1]):
            path = file or path
            found.append((path, name))
        return found

    @property
    def names(self):
        """What the first cell names."""
        return re.findall(r"`([^`]+)`", self.cells[0])


def read_rows():
    rows = []
    for number, line in enumerate(DOCUMENT.read_text(encoding="utf-8").splitlines(), 1):
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))
        if line.startswith("|") and not set(line) <= set("|-: ") and cells[-1] != "test":
            rows.append(Row(number, cells))
    return rows


def names_in(path):
    """Names of the tests in a file, without importing it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


ROWS = read_rows()


def test_the_reader_finds_the_rows_and_their_tests():
    assert len(ROWS) > 40
    (row,) = [row for row in ROWS if row.names[:1] == ["num_workers"]]
    assert row.tests == [(f"{HERE}/test_sessions.py", "test_num_workers")]


def test_the_example_prints_what_it_says(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\) +# (.*)", code)


def test_every_test_that_a_row_names_exists():
    named = {test for row in ROWS for test in row.tests}
    known = {path: names_in(ROOT / path) for path, _ in named if (ROOT / path).is_file()}
    assert sorted(test for test in named if test[1] not in known.get(test[0], ())) == []


def test_every_test_of_the_surface_is_in_a_row():
    named = {test for row in ROWS for test in row.tests}
    files = [path for path in (ROOT / HERE).glob("test_*.py") if path.name != Path(__file__).name]
    known = {(f"{HERE}/{path.name}", name) for path in files for name in names_in(path)}
    assert sorted(known - named) == []


def test_every_row_has_a_test_or_says_not_yet():
    wrong = [row.line for row in ROWS if bool(row.tests) == (row.cells[-1] == "not yet")]
    assert wrong == []


@pytest.mark.parametrize("name", DISCO)
def test_every_name_of_disco_has_a_row(name):
    pattern = re.compile(rf"(?<!\w){name}(?!\w)")
    assert [row.line for row in ROWS if any(pattern.search(each) for each in row.names)]


OWNERS = {"session": disco.ThreadedSession, "ref": disco.DRef, "worker": disco.WorkerContext, "disco": disco}


def parameters(function):
    """Names and defaults, as they are written."""
    return [
        (parameter.name, None if parameter.default is inspect.Parameter.empty else repr(parameter.default))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]


def written(text):
    """Names and defaults of ``(a, b=1, *args)`` as `parameters` gives them."""
    arguments = ast.parse(f"def f{text}: ...").body[0].args  # type: ignore[attr-defined]
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    pairs = [(each.arg, default) for each, default in zip(positional, defaults, strict=True)]
    pairs += [(arguments.vararg.arg, None)] if arguments.vararg else []
    pairs += [
        (each.arg, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    pairs += [(arguments.kwarg.arg, None)] if arguments.kwarg else []
    return [(name, None if default is None else repr(ast.literal_eval(default))) for name, default in pairs]


SIGNATURES = [
    (row.line, span)
    for row in ROWS
    if len(row.cells) == 4 and row.cells[-1] != "not yet"
    for span in re.findall(r"`([^`]+)`", row.cells[1])
    if CALL.match(span)
]


def test_there_are_signatures_to_compare():
    assert len(SIGNATURES) > 30


@pytest.mark.parametrize(("line", "span"), SIGNATURES, ids=[span for _, span in SIGNATURES])
def test_a_signature_in_a_row_is_the_real_one(line, span):
    owner, name, arguments = CALL.match(span).groups()
    where = f"docs/disco.md:{line}"
    if arguments is not None:
        assert parameters(getattr(OWNERS[owner], name)) == written(arguments), where
        return
    with disco.ThreadedSession(1) as s:  # an attribute may be one of the object only
        ref = s.call_packed(int)
        worker = s.call_packed(disco.worker).get(0)
        assert hasattr({"session": s, "ref": ref, "worker": worker, "disco": disco}[owner], name), where
