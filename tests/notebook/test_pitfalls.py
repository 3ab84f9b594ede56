"""What Python's own words for a mistake do not say is said below them, in a real shell."""

from __future__ import annotations

import dis

import pytest

from disco_magic.errors import CellError
from disco_magic.notebook.pitfalls import told_of_numbers
from disco_magic.session import halfway


@pytest.mark.parametrize(
    ("own", "use", "kind"),
    [
        ("allreduce = []", "allreduce(np.ones(2))", "list"),
        ("broadcast = np.ones(2)", "broadcast(3)", "ndarray"),
        ("worker_id = 3\nworker = 'me'", "worker.rank", "str"),
        ("np = 1", "np.ones(2)", "int"),
        ("sum = 0", "sum([1, 2])", "int"),
        ("list = [1, 2]", "list(range(3))", "list"),
        ("gather = None", "def f():\n    return 1 + gather(1)\nf()", "NoneType"),
    ],
)
def test_a_register_that_hides_a_collective_is_named(four, own, use, kind):
    four.run(f"%%disco\n{own}")
    four.fail(f"%%disco\n{use}", CellError)
    name = own.rpartition("\n")[2].partition(" ")[0]
    way = f"%disco rm {name} brings that back"
    assert (
        four.shown[-1] == f"{name} is a register ({kind}), which hides what cells have under that name; {way}"
    )
    four.run(f"%disco rm {name}")
    four.run(
        "%%disco\nint(allreduce(np.ones(2))[0]), int(broadcast(1)), gather(1) is None, worker.num_workers"
    )
    assert four.lines == ["[0]   (4, 1, False, 4)", "[1-3] (4, 1, True, 4)"]


def test_an_array_with_the_name_of_a_built_in_is_no_mistake_about_that(four):
    four.run("%%disco\ninput = np.ones(2)")
    four.fail("%%disco\ninput.shap", CellError)
    assert "hides" not in four.shown[-1]


@pytest.mark.parametrize(
    ("verb", "to_all"), [("gather", "allgather"), ("reduce", "allreduce"), ("worker.gather", "allgather")]
)
def test_who_is_not_the_root_has_no_result(four, verb, to_all):
    four.fail(f"%%disco\n{verb}(np.ones(2)).sum()", CellError)
    name = verb.rpartition(".")[2]
    only = f"what {name} returns is None but for its root, worker 0 by default"
    assert four.shown[-1] == f"{only}; {to_all} gives it to all"


@pytest.mark.parametrize(
    "use",
    [
        "reduce(np.ones(2)) + 1",
        "2 * reduce(1.0)",
        "np.ones(2) - reduce(np.ones(2))",
        "reduce(1.0) < 0.5",
        "total = 1.0\ntotal += reduce(1.0)",
        "f'loss {reduce(1.0):.3f}'",
        "'%.3f' % reduce(1.0)",
    ],
)
def test_who_is_not_the_root_has_no_result_to_calculate_with_or_to_format(four, use):
    four.fail(f"%%disco\n{use}", CellError)
    assert (
        four.shown[-1]
        == "what reduce returns is None but for its root, worker 0 by default; allreduce gives it to all"
    )


def test_a_none_on_the_other_side_of_the_operator_is_not_taken_for_the_roots(four):
    four.run("%%disco\nlacking = None")
    four.fail("%%disco -w 0\nlacking + reduce(1.0, over=[0])", CellError)
    assert "root" not in four.shown[-1]


@pytest.mark.parametrize(
    "use",
    ["f'{whole:.3f}'", "f'loss {whole:.3f} of {worker_id}'", "'%.3f' % whole", "1 + whole", "whole < 2"],
)
def test_a_number_that_is_none_but_on_the_root_says_where_it_is_not(four, use):
    four.run("%%disco\nwhole = reduce(1.0)")
    four.fail(f"%%disco\n{use}", CellError)
    assert four.shown[-1] == "whole is None on workers [1-3], and float64 on worker 0"


@pytest.mark.parametrize(
    "use", ["whole.shape", "whole[0]", "whole + 1", "len(whole)", "for row in whole:\n    pass", "whole()"]
)
def test_a_register_that_is_none_but_on_the_root_says_where_it_is_not(four, use):
    four.run("%%disco\nwhole = gather(np.ones(2), root=1)")
    four.fail(f"%%disco -w 0,2,3\n{use}", CellError)
    assert four.shown[-1] == "whole is None on workers [0,2-3], and ndarray on worker 1"


@pytest.mark.parametrize(
    "cell",
    [
        "import math as np\nnp.ones(2)",  # another module: Python says which
        "def reduce(x):\n    return x\nreduce()",
        "def f(reduce):\n    return reduce(1)\nreduce = 1\nf(2)",
        "[].allreduce",
        "rows = []\nrows(1)",
        "nobody = None\nnobody.shape",
        "nobody = None\nnobody + np.add.reduce(np.arange(3))",
        "import functools\nfunctools.reduce(lambda a, b: None, [1, 2, 3]).real",
        "def gather(x):\n    return None\ngather(1).real",
        "def f():\n    gather = lambda x: None\n    return gather(1).real\nf()",
        "import asyncio\nasync def none():\n    return None\n(await asyncio.gather(none()))[0].real",
        "def f(x):\n    return x.shape\nf(None)",
        "whole = gather(np.ones(2))\nlen(3)",
    ],
)
def test_mistakes_of_another_kind_are_left_to_python(four, cell):
    four.fail(f"%%disco\n{cell}", CellError)
    assert "hides" not in four.out + four.err
    assert "root" not in four.shown[-1]
    assert "Error: " in four.shown[-1]


def test_a_cell_with_a_line_of_ipython_is_read_as_well(four):
    four.fail("%%time\n\n%%disco\n!true\nallreduce = {}; allreduce(1)", CellError)
    assert four.shown[-1].startswith("allreduce is a register (dict), which hides")


@pytest.mark.parametrize(
    ("cell", "names", "back"),
    [
        ("for worker_id in range(2): pass", "worker_id", "it"),
        ("num_workers, worker_id = 2, 0", "worker_id and num_workers", "them"),
        ("import os as num_workers", "num_workers", "it"),
        ("".join(f"n{i} = {i}\n" for i in range(300)) + "worker_id = 1", "worker_id", "it"),
    ],
)
def test_a_cell_that_binds_the_worker_s_number_is_told_of_it(four, cell, names, back):
    four.run(f"%%disco\n{cell}")
    rest = f"%disco rm {names.replace(' and', '')} gives {back} back"
    assert four.lines[0].startswith(f"{names} in this cell is a register like any other")
    assert four.lines[0].endswith(rest)
    four.run(f"%disco rm {names.replace(' and', '')}")
    four.run("%%disco\nworker_id, num_workers")
    assert four.lines == [f"[{worker}] ({worker}, 4)" for worker in range(4)]


@pytest.mark.parametrize(
    "cell",
    ["x = worker_id", "f = lambda worker_id: worker_id", "[worker_id for worker_id in (1, 2)] and None"],
)
def test_one_that_reads_it_or_has_it_in_a_function_is_not(four, cell):
    four.run(f"%%disco\n{cell}")
    assert four.lines == []


def test_an_import_that_was_stopped_is_told_of_where_the_next_one_fails(four, tmp_path, monkeypatch):
    (tmp_path / "cut_library.py").write_text("import cut_library\ncut_library.part")
    monkeypatch.syspath_prepend(tmp_path)
    four.fail("%%disco\nimport cut_library", CellError)
    assert "cut_library was stopped" not in four.shown[-1]
    monkeypatch.setattr(halfway, "_STOPPED", {"cut_library": {"cut_library"}})
    four.fail("%%disco\nimport cut_library", CellError)
    assert four.shown[-1].startswith(
        "an import of cut_library was stopped half-way earlier: it may fail until"
    )


@pytest.mark.parametrize("again", ["import mended_library", "import mended_library.part"])
def test_of_an_import_that_was_stopped_nothing_is_said_once_it_has_succeeded(
    four, tmp_path, monkeypatch, again
):
    (tmp_path / "mended_library").mkdir()
    (tmp_path / "mended_library" / "__init__.py").write_text("")
    (tmp_path / "mended_library" / "part.py").write_text("")
    (tmp_path / "mended_library" / "broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    stopped = again.rpartition(" ")[2]
    monkeypatch.setattr(halfway, "_STOPPED", {"mended_library": {"mended_library", stopped}})
    four.fail("%%disco\nimport mended_library.broken", CellError)
    is_told = four.shown[-1].startswith("an import of mended_library was stopped")
    assert is_told == (stopped == "mended_library.part")
    four.run(f"%%disco\n{again}")
    four.fail("%%disco\nimport mended_library.broken", CellError)
    assert "was stopped half-way" not in four.shown[-1]


COLOURS = (
    "from matplotlib import colormaps, colors\ncolormaps.register(colors.ListedColormap(['r'], name='{}'))"
)
HANDLER = (
    "import asyncio, signal\nasyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)\nawait stop"
)


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (
            COLOURS.format("of_disco"),
            "matplotlib's colormaps are shared by all workers: register one with force",
        ),
        ("import asyncio\nasyncio.get_running_loop()", "a worker has an event loop while it runs a cell"),
        ("import asyncio\nasyncio.get_event_loop()", "a worker has an event loop while it runs a cell"),
        (HANDLER, "signals come to the process in which all workers are, where a worker's event loop cannot"),
    ],
)
def test_what_only_one_of_all_workers_can_do_for_the_process_is_told(four, cell, told):
    four.fail(f"%%disco\n{cell}", CellError)
    assert four.shown[-1].startswith(told)
    if "colormaps" in cell:
        __import__("matplotlib").colormaps.unregister("of_disco")


def test_a_cell_that_only_reads_the_worker_s_number_is_not_disassembled(monkeypatch):
    # It took 1.5 ms for 49 lines.
    monkeypatch.setattr(dis, "get_instructions", None)
    code = compile("x = worker_id\nif worker_id == 0:\n    print(num_workers, x)", "cell", "exec")
    assert told_of_numbers([code]) == ""
