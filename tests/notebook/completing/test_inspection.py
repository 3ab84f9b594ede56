"""Shift-Tab and ``name?`` in cells that run on the workers; in a real shell and a real kernel."""

from __future__ import annotations

import inspect
import re
import types

import pytest

from disco_magic.notebook.completing.inspection import inspected
from disco_magic.session.current import session
from disco_magic.testing.doubles import Gate
from tests.notebook.completing.inspecting import MODEL, front


def text(shell, name, detail=0, **options):
    return inspected(front(shell), name, detail, front(shell).sessions.find(), **options).get(
        "text/plain", ""
    )


# --- what is told -----------------------------------------------------------------------------------


def test_of_a_register_every_worker_s_value_is_told_equal_ones_once(four):
    four.run("%%disco\nx = np.full((2, 3), 1.0 + (worker_id == 2))\nsame = np.ones(3)")
    lines = text(four, "x").splitlines()
    assert lines[0].startswith("Register:")
    assert lines[1] == "  [0-1,3] float64 2\u00d73 \u00b7 cpu \u00b7 48 B \u00b7 min 1 mean 1 max 1"
    assert lines[2] == "\u2260 [2]     float64 2\u00d73 \u00b7 cpu \u00b7 48 B \u00b7 min 2 mean 2 max 2"
    assert (
        text(four, "same")
        .splitlines()[0]
        .endswith("[0-3] float64 3 \u00b7 cpu \u00b7 24 B \u00b7 min 1 mean 1 max 1")
    )
    assert text(four, "x").splitlines()[-1].split() == ["Type:", "ndarray"]


def test_the_same_stands_in_html(four):
    four.run("%%disco\nx = np.full(2, worker_id // 3)\ny = '<b>'")
    html = inspected(front(four), "x", 0, front(four).sessions.find())["text/html"]
    assert html.startswith("<pre><b>Register:</b>\n  [0-2] int64 2 \u00b7 cpu")
    assert "\n\u2260 [3]   int64 2 \u00b7 cpu" in html
    assert "\n<b>Docstring:</b>\nndarray(shape" in html
    assert html.endswith("\n<b>Type:</b>      ndarray</pre>")
    assert "&lt;b&gt;" in inspected(front(four), "y", 0, front(four).sessions.find())["text/html"]


def test_values_are_told_as_in_the_tables(crew):
    crew.run(
        "%%disco\none, odd = np.float32(2.5), np.array([1, np.nan, np.inf, 2])\n"
        "many, three = np.ones(100_000), [1, 2, 3]"
    )
    everybody = "[0]" if crew.n == 1 else f"[0-{crew.n - 1}]"
    assert re.search(
        rf"{re.escape(everybody)} .*float32 0-d \u00b7 cpu \u00b7 4 B \u00b7 2.5", text(crew, "one")
    )
    assert "min 1 mean 1.5 max 2 \u00b7 1 NaN \u00b7 1 Inf" in text(crew, "odd")
    assert "max 1 (sample)" in text(crew, "many")
    assert f"{everybody} list \u00b7 [1, 2, 3]" in text(crew, "three")


def test_workers_without_the_register_are_told_too(four):
    four.run("%%disco\nif worker_id == 2: own = np.ones(1)")
    lines = text(four, "own").splitlines()
    assert lines[1:3] == ["  [0-1,3] no value", "\u2260 [2]     float64 1 \u00b7 cpu \u00b7 8 B \u00b7 [1.]"]


def test_attributes_are_told_of_every_worker(four):
    four.run(MODEL)
    lines = text(four, "model.weight").splitlines()
    assert lines[0].startswith("Value:")
    assert [line[2:5] for line in lines[1:5]] == ["[0]", "[1]", "[2]", "[3]"]
    assert "Docstring: what it has learnt." in lines
    assert [line for line in text(four, "model").splitlines() if "Model \u00b7" in line] == [
        f"  [{worker}] Model \u00b7 32 B \u00b7 Model" for worker in range(4)
    ]
    assert [line.split(":")[0] for line in text(four, "model.costly").splitlines()] == ["File", "Type"]


def test_functions_of_cells_tell_signature_docstring_place_and_source(four):
    four.run(MODEL)
    number = four.ip.execution_count - 1
    told = text(four, "double")
    assert re.search(r"Signature: +double\(value, times=2\)\n", told)
    assert re.search(r"Docstring: +Do it twice\.\n", told)
    assert re.search(rf"File: +Cell In\[{number}\], line 16\n", told)
    told = text(four, "double", 1)
    assert "Source:" in told
    assert "    return value * times" in told
    assert "Docstring:" not in told
    assert "forward(inputs, scale=2)" in text(four, "model.forward")
    assert "Init signature: Model()" in text(four, "Model")


def test_verbs_and_the_worker_are_told(four):
    assert "Signature: allreduce(x: Any, op: str = 'sum'" in text(four, "allreduce")
    assert "Register" not in text(four, "allreduce")
    lines = text(four, "worker.id").splitlines()
    assert lines[1:5] == [f"  [{w}] int \u00b7 {w}" for w in range(4)]
    assert "Docstring: the worker's number, 0 .. num_workers - 1; never changes." in lines
    assert "Vector" in text(four, "np.linalg.norm") or "norm" in text(four, "np.linalg.norm")
    assert "allreduce(x: Any" in text(four, "worker.allreduce")


def test_a_register_before_what_it_hides(four):
    four.run("%%disco\nnp = 5")
    assert "[0-3] int \u00b7 5" in text(four, "np")


def test_sections_can_be_left_out(four):
    four.run(MODEL)
    assert "Docstring" not in text(four, "double", omit=["Docstring"])
    assert "Init docstring" not in text(four, "Model", omit={"init_docstring", "file"})
    assert "File" in text(four, "double", omit=["Docstring"])


@pytest.mark.parametrize("name", ["nobody", "", "model.nothing", "5", "a b", "x[0]", "%disco"])
def test_what_nobody_has_is_not_found(four, name):
    four.run(MODEL)
    assert inspected(front(four), name, 0, front(four).sessions.find()) == {}


def test_before_there_is_a_session_what_cells_will_see_is_told(shell):
    assert "Signature: allreduce(x: Any" in text(shell, "allreduce")
    assert "A worker, as seen by the functions and cells" in text(shell, "worker")
    assert inspected(front(shell), "x", 0, front(shell).sessions.find()) == {}


def test_of_a_session_that_is_ended_meanwhile_nothing_is_told(four, monkeypatch):
    four.run("%%disco\nx = 1")
    monkeypatch.setattr(session()._launcher, "examine_names", lambda *_: session()._refuse())
    assert inspected(front(four), "x", 0, front(four).sessions.find()) == {}


def test_busy_workers_are_not_waited_for(four):
    gate = Gate()
    four.ip.user_ns["gate"] = gate
    four.run("%%disco --nowait --push gate -o cell\nfresh = np.full(2, worker_id)\ngate()")
    gate.arrived(4)
    try:
        sent = [each.sent for each in session().stats().workers]
        assert text(four, "fresh").count("int64 2") == 4
        assert [each.sent for each in session().stats().workers] == sent
    finally:
        gate.open()
        four.run("cell.wait()")


# --- in and out -------------------------------------------------------------------------------------


class Below(types.SimpleNamespace):
    """Stands for a kernel."""

    def do_inspect(self, code, cursor_pos, detail_level=0, omit_sections=()):
        return code, cursor_pos, detail_level, omit_sections


def test_the_kernel_is_asked_about_other_cells_and_gets_everything_back(bare):
    kernel = bare.ip.kernel = Below()
    bare.run("%load_ext disco_magic")
    assert kernel.do_inspect("x", 1, 1, {"a"}) == ("x", 1, 1, {"a"})
    assert kernel.do_inspect("%%disco\nnp", 3) == ("%%disco\nnp", 3, 0, ())
    assert kernel.do_inspect("%%disco\nallreduce(", 18)["found"]
    assert kernel.do_inspect("%%disco\nnobody", 12) == {
        "status": "ok",
        "found": False,
        "data": {},
        "metadata": {},
    }
    bare.run("%reload_ext disco_magic")
    assert kernel.do_inspect("%%disco\nnp", 9)["found"]
    bare.run("%unload_ext disco_magic")
    assert vars(kernel) == {}
    mine = kernel.do_inspect = lambda *_: "mine"
    bare.run("%load_ext disco_magic")
    assert kernel.do_inspect("x", 1) == "mine"
    bare.run("%unload_ext disco_magic")
    assert kernel.do_inspect is mine
    bare.run("%load_ext disco_magic")
    theirs = kernel.do_inspect = lambda *_: "theirs"
    bare.run("%unload_ext disco_magic")
    assert kernel.do_inspect is theirs


def test_our_do_inspect_takes_what_the_kernel_s_takes(bare):
    from ipykernel.ipkernel import IPythonKernel

    kernel = bare.ip.kernel = Below()
    bare.run("%load_ext disco_magic")
    ours = inspect.signature(kernel.do_inspect, follow_wrapped=False)
    assert [*inspect.signature(IPythonKernel.do_inspect).parameters] == ["self", *ours.parameters]


# --- a real kernel ----------------------------------------------------------------------------------


@pytest.fixture
def ask(fresh):
    """What the kernel says about the end of a cell."""

    def inspect_at(cell, detail=0):
        return fresh._reply(fresh.client.inspect(cell, len(cell), detail))["content"]

    return inspect_at


def plain(content):
    return re.sub(r"\x1b\[[0-9;]*m", "", content["data"]["text/plain"])


def test_the_kernel_tells_of_registers_while_workers_are_busy(fresh, ask):
    fresh.ok("import builtins, threading\nbuiltins.gate = threading.Event()\nshared = 'of the notebook'")
    cell = "shared = np.full(3, worker_id)\ndef f(x):\n    'Told.'\nprint('begun')\nbuiltins.gate.wait(30)"
    sent = fresh.send(f"%%disco --nowait -o cell\nimport builtins\n{cell}")
    fresh.finish(sent, fresh.until_text(sent, "begun", 4))
    try:
        found = ask("%%disco\nshared")
        assert found["found"]
        assert plain(found).count("int64 3") == 4
        assert found["data"]["text/html"].count("int64 3") == 4
        assert "Told." in plain(ask("%%disco\nf("))
        assert "'Told.'" in plain(ask("%%disco\nf", 1))
        assert "of the notebook" in plain(ask("shared"))
        assert not ask("%%disco\nnobody")["found"]
    finally:
        fresh.ok("builtins.gate.set()\ncell.wait()")


def test_in_the_kernel_a_question_in_a_cell_becomes_a_page(fresh):
    fresh.ok("%%disco\nx = np.ones(3)")
    sent = fresh.send("%%disco\nx?")
    reply = fresh._reply(sent)["content"]
    assert [page["source"] for page in reply["payload"]] == ["page"]
    assert "[0-3] float64 3" in reply["payload"][0]["data"]["text/plain"]


def test_unloading_gives_the_kernel_back_its_own(fresh, ask):
    fresh.ok("%%disco\nx = np.ones(3)")
    assert ask("%%disco\nx")["found"]
    fresh.ok("%unload_ext disco_magic")
    assert not ask("%%disco\nx")["found"]
    fresh.ok("assert 'do_inspect' not in vars(get_ipython().kernel)")
    fresh.ok("%load_ext disco_magic")


def test_arrays_are_summed_up_in_a_moment_whatever_they_hold(crew):
    crew.run("%%disco\nempty, texts, nothing = np.ones((0, 3)), np.array(['a', 'b']), None")
    assert "float64 0\u00d73" in text(crew, "empty")
    assert "<U1 2" in text(crew, "texts")
    assert "NoneType \u00b7 None" in text(crew, "nothing")
