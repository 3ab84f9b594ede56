"""The site says what is so: examples run, links lead somewhere, every page can be found from the start.

`make docs` builds it; nothing here needs Sphinx. On a page a block marked ``pycon`` is run as a doctest.
Those marked ``python`` in the guide are the cells of one notebook, in order; what is marked ``text`` below
one are lines that it shows.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import json
import re
import runpy
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.functions.context import BEHIND, VERBS
from tests.file_list import PAGE, render
from tests.notebook.conftest import bare  # noqa: F401 - the fixture

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS = runpy.run_path(str(DOCS / "conf.py"))
OTHERS = [
    ROOT / path for path in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")
]
PAGES = [*sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts), *OTHERS]
GUIDE = [DOCS / "index.md", *(page for page in PAGES if page.parent == DOCS / "guide")]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FENCED = re.compile(r"^```(?P<kind>.*)\n(?P<text>(?:.*\n)*?)```$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FLAGS = SETTINGS["doctest_default_flags"]


def name(path):
    return str(path.relative_to(ROOT))


def text_of(path):
    """A page's Markdown; of a notebook that of its cells."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def blocks(path):
    """What is fenced on a page: kind, text, line."""
    page = text_of(path)
    return [
        (each["kind"], each["text"], page.count("\n", 0, each.start()) + 1) for each in FENCED.finditer(page)
    ]


# --- examples --------------------------------------------------------------------------------------


def as_numpy_shows(text):
    """Scalars as the installed NumPy shows them: ``np.float64(0.5)``, before NumPy 2 ``0.5``."""
    return text if repr(np.int64(1)) != "1" else re.sub(r"np\.\w+\(([^()]+)\)", r"\1", text)


def run_examples(examples, capsys):
    """Run doctests with the names that `conf.py` gives them; what failed, in words."""
    names = {}
    exec(SETTINGS["doctest_global_setup"], names)
    started = names["session"]
    runner, said = doctest.DocTestRunner(optionflags=FLAGS, verbose=False), []
    try:
        for each in examples:
            each.globs = names
            for example in each.examples:
                example.want = as_numpy_shows(example.want)
            with capsys.disabled():
                runner.run(each, out=said.append, clear_globs=False)
    finally:
        started.shutdown()
        exec(SETTINGS["doctest_global_cleanup"], names)
    return "".join(said)


def examples_of(path):
    """What a page marks as ``pycon``."""
    parser, where = doctest.DocTestParser(), name(path)
    return [
        parser.get_doctest(text, {}, where, where, line)
        for kind, text, line in blocks(path)
        if kind == "pycon"
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if examples_of(page)], ids=name)
def test_the_examples_of_a_page_give_what_it_shows(page, capsys):
    assert run_examples(examples_of(page), capsys) == ""


@pytest.fixture(autouse=True)
def last_value_of_nobody():
    """Doctest leaves its last value in the builtins, where later shells take it for somebody's."""
    yield
    vars(builtins).pop("_", None)


MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "disco_magic").rglob("*.py")
    if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_docstrings_give_what_they_show(module, capsys):
    found = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    examples = [each for each in found if each.examples]
    assert examples
    assert run_examples(examples, capsys) == ""


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (disco, "ThreadedSession DRef register_func worker"),
        (disco.Session, "call_packed run run_nowait check doctor allreduce put scatter __getitem__"),
        (disco.WorkerContext, "allreduce allgather reduce_scatter broadcast scatter alltoall send recv"),
    ],
    ids=["disco_magic", "Session", "WorkerContext"],
)
def test_what_is_used_most_has_an_example(owner, names):
    assert [each for each in names.split() if ">>> " not in getattr(owner, each).__doc__] == []


def test_every_method_in_the_reference_is_called_in_an_example():
    pages = [each for page in PAGES for each in examples_of(page)]
    finder = doctest.DocTestFinder(exclude_empty=True)
    docstrings = [each for module in MODULES for each in finder.find(importlib.import_module(module))]
    shown = "".join(example.source for each in (*pages, *docstrings) for example in each.examples)
    shown += "".join(code for page in GUIDE for code, _ in cells(page))
    named = re.findall(r"^\.\. automethod:: (?:Session|WorkerContext)\.([a-z]\w+)$", REFERENCE, re.MULTILINE)
    # They depend on the machine's cores, on a folder that TVM has written, on a front end.
    without = {"bind_worker_to_cpu_core", "bind_to_cpu_core", "load_tensor_cache", "examine_names"}
    assert {each for each in named if not re.search(rf"\b{each}\(", shown)} == without


def cells(path):
    """The cells of a page and what they show: ``(code, lines)``."""
    found = []
    for kind, text, _ in blocks(path):
        if kind == "python":
            found.append((text, []))
        elif kind == "text" and found:
            found[-1][1].extend(text.splitlines())
    return found


def shown_by(shell, code):
    """The lines that a cell gives, and its error's."""
    try:
        shell.run(code)
    except Exception as error:  # noqa: BLE001 - whatever a page shows
        return [*shell.lines, *f"{type(error).__name__}: {error}".splitlines()]
    return shell.lines


@pytest.mark.parametrize("page", [page for page in GUIDE if cells(page)], ids=name)
def test_the_cells_of_a_page_show_what_it_says(page, bare):  # noqa: F811 - the fixture
    if page.name == "frameworks.md":
        pytest.importorskip("torch")
        pytest.importorskip("jax")
    for code, said in cells(page):
        shown = shown_by(bare, code)
        assert [line for line in said if line not in shown] == [], shown


def test_every_command_and_option_in_the_guide_is_in_the_help(bare):  # noqa: F811 - the fixture
    bare.run("%load_ext disco_magic")
    bare.run("%disco -h")
    commands = re.findall(r"^  ([a-z]+) ", bare.out, re.MULTILINE)
    helps = []
    for line in ["%%disco -h\n0", *(f"%disco {command} -h" for command in commands)]:
        bare.run(line)
        helps.append(bare.out)
    guide = "".join(map(text_of, GUIDE))
    assert set(re.findall(r"(?<!%)%disco ([a-z]+)", guide)) <= set(commands)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", guide)) <= set(
        re.findall(r"--[a-z-]+", "".join(helps))
    )


# --- pages -----------------------------------------------------------------------------------------


def anchors(path):
    """The names of a page's headings, as GitHub and the site make them."""
    heads = re.findall(r"^#+ +(.+)$", FENCED.sub("", text_of(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def broken(path):
    """Links of a page that lead to no file, or to no heading of one."""
    prose = re.sub(r"`[^`\n]*`", "", FENCED.sub("", text_of(path)))
    for found in LINK.finditer(prose):
        file, _, anchor = unquote(found["target"]).partition("#")
        if re.match(r"\w+:", file):
            continue
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or (anchor and anchor not in anchors(to)):
            yield found["target"]


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS, ROOT / "README.md"], ids=name)
def test_every_link_between_pages_leads_somewhere(page):
    assert list(broken(page)) == []


def listed(path):
    """The pages that a page's tables of contents name."""
    for kind, text, _ in blocks(path):
        if kind == "{toctree}":
            entries = [
                line.strip() for line in text.splitlines() if line.strip() and not line.startswith(":")
            ]
            for entry in entries:
                named = re.sub(r".*<(.+)>$", r"\1", entry)
                pattern = re.sub(r"(\.md)?$", "", named)
                yield from (
                    found.resolve()
                    for suffix in (".md", ".ipynb")
                    for found in path.parent.glob(f"{pattern}{suffix}")
                )


def test_every_page_and_notebook_can_be_found_from_the_start():
    reached, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        reached.add(page)
        todo += [each for each in listed(page) if each not in reached and each.suffix == ".md"]
        reached |= set(listed(page))
    assert {name(page) for page in {*PAGES, *NOTEBOOKS} - reached} == set()


def test_the_site_reads_every_page_and_notebook():
    read = {
        path
        for pattern in SETTINGS["include_patterns"]
        for path in ROOT.glob(pattern.replace("**.", "**/*."))
    }
    assert {name(page) for page in {*PAGES, *NOTEBOOKS} - read} == set()


def test_the_page_of_files_is_made_of_what_they_say():
    assert text_of(PAGE) == render(), "write it: python -m tests.file_list --write"


# --- the reference ---------------------------------------------------------------------------------

REFERENCE = "".join(text_of(page) for page in sorted((DOCS / "api").glob("*.md")))


def test_every_public_name_is_in_the_reference():
    named = set(re.findall(r"^\.\. auto\w+:: (\w+)$", REFERENCE, re.MULTILINE))
    named |= set(re.findall(r"\w+", " ".join(re.findall(r":members: (.+)$", REFERENCE, re.MULTILINE))))
    assert set(disco.__all__) - named == {"errors"}
    assert ".. automodule:: disco_magic.errors" in REFERENCE


def test_every_error_is_in_the_reference():
    (named,) = re.findall(r"automodule:: disco_magic\.errors\n +:members: (.+)$", REFERENCE, re.MULTILINE)
    tree = ast.parse((ROOT / "disco_magic" / "errors" / "__init__.py").read_text(encoding="utf-8"))
    defined = (node for node in tree.body if isinstance(node, ast.ClassDef))
    named_there = (node.name for node in defined if "Enum" not in map(ast.unparse, node.bases))
    classes = {name for name in named_there if not name.startswith("_")}
    assert classes == set(named.split(", "))


def test_the_tree_of_errors_is_that_of_the_code():
    (tree,) = [text for kind, text, _ in blocks(DOCS / "api" / "errors.md") if kind == "text"]
    above = []
    for line in tree.splitlines():
        lead, named, other = re.match(r"(\W*)(\w+)(?: \((\w+)\))?", line).groups()
        del above[len(lead) // 3 :]
        bases = getattr(disco.errors, named).__bases__
        said = [*above[-1:], *([other] if other else [])] or ["Exception"]
        assert [base.__name__ for base in bases] == said
        above.append(named)


@pytest.mark.parametrize("owner", [disco.Session, disco.WorkerContext], ids=lambda owner: owner.__name__)
def test_every_method_that_users_call_is_in_the_reference(owner):
    named = set(re.findall(rf"^\.\. auto\w+:: {owner.__name__}\.(\w+)$", REFERENCE, re.MULTILINE))
    with disco.ThreadedSession(1) as session:
        public = dir(session) if owner is disco.Session else dir(owner)
    methods = {each for each in public if not each.startswith("_") and callable(getattr(owner, each, None))}
    called_by_the_runtime = {"keep_bound", "waits_for_me"}
    assert methods - named - called_by_the_runtime == set()


def test_linters_are_told_every_name_that_cells_have_without_an_import():
    told = re.search(r"PYFLAKES_BUILTINS=(\S+)", text_of(DOCS / "kernel.md"))
    assert set(told[1].split(",")) == {*VERBS, *BEHIND}
