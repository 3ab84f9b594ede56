"""Tab completion: on %disco lines, and how it comes into IPython and out again; also in a real kernel."""

from __future__ import annotations

import re
import sys

import pytest

from disco_magic.notebook.completing.completion import is_spmd
from disco_magic.session.current import session


@pytest.fixture
def trained(four):
    """Four workers with registers, and a variable in the notebook."""
    four.ip.user_ns["weights"] = 1
    four.run("%%disco\nwinners = np.ones(worker_id + 1)\nloss = 1.0\nif worker_id in (0, 2): odd = 1")
    four.run("%%disco\nnet = {'w1': np.ones((2, 3)), 'w2': np.ones(2), 'deep': [np.ones(1)], 'n': 1}")
    return four


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%disco sta", {"start": "command", "status": "command"}),
        ("%disco", {"%disco": "magic", "%%disco": "magic"}),
        ("%disco put wei", {"weights": "variable"}),
        ("%disco get w", {"winners": "register\u00a0\u2260"}),
        ("%disco get winners o", {"odd": "register\u00a0[0,2]"}),
        ("%disco get winners lo", {"loss": "register"}),
        ("%disco get winners win", {}),
        ("%disco registers win", {"winners": "register\u00a0\u2260"}),
        ("%disco registers net['w", {"net['w1']": "float64\u00a02\u00d73", "net['w2']": "float64\u00a02"}),
        ("%disco registers net['deep'][", {"net['deep'][0]": "float64\u00a01"}),
        ("%disco registers loss.", {}),
        ("%disco registers nobody[", {}),
        ("%disco registers --as hi", {"histogram": "word"}),
        ("%disco registers --as heatmap od", {"odd": "register\u00a0[0,2]"}),
        ("%disco registers -w 0 --table od", {"odd": "register\u00a0[0,2]"}),
        ("%disco registers -w 0 loss od", {}),
        ("%disco registers --as=hi", {"histogram": "word"}),
        ("%disco rm od", {"odd": "register\u00a0[0,2]"}),
        ("%disco scatter --a", {"--axis": "option"}),
        ("%disco start --kind ", {"threads": "word"}),
        ("%disco start --devices a", {"auto": "word"}),
        (
            "%disco interrupt -w ",
            {"0": "worker", "1": "worker", "2": "worker", "3": "worker", "all": "workers"},
        ),
        ("%disco auto o", {"on": "word", "off": "word"}),
        ("%disco debug -w ", {"0": "worker", "1": "worker", "2": "worker", "3": "worker"}),
        ("%disco help ti", {"timeline": "command"}),
        ("%disco get\tw", {"winners": "register\u00a0\u2260"}),
        ("%%disco --output li", {"live": "word"}),
        ("%%disco --output=li", {"live": "word"}),
        ("%%disco --time --outp", {"--output": "option"}),
        ("%%disco --no-verb", {}),
        ("%%disco -w 0,2,", {"1": "worker", "3": "worker"}),
        ("%%disco --show a", {"all": "workers"}),
        ("%%disco --group ", {"0": "group"}),
        ("%%disco --push wei", {"weights": "variable"}),
        ("%%disco --push odd,wei", {"weights": "variable"}),
        ("%%disco --pull winners,lo", {"loss": "register"}),
        ("%%disco --check v", {"values": "word"}),
        ("%%disco --check --tim", {"--time": "option", "--timeout": "option"}),
        ("%%disco --check values --chec", {}),
    ],
)
def test_lines_complete_options_what_they_take_and_names(trained, offered, line, expected):
    found = {re.split(r"[\s,=]", text)[-1]: kind for text, kind in offered(line).items()}
    if not expected:  # IPython's own take over
        assert not {"option", "word", "worker", "register"} & set(found.values())
    else:
        assert found == expected


def test_what_registers_shows_is_one_name(trained, offered):
    assert "winners" not in str(offered("%disco registers odd win"))


def test_results_of_cells_can_be_removed(four, offered, monkeypatch):
    four.run("%%disco --out kept\nnp.ones(2)")
    number = four.ip.execution_count - 1
    assert offered("%disco rm Ou") == {f"%disco rm Out[{number}]": "result"}
    assert offered(f"%disco rm Out[{number}") == {f"%disco rm Out[{number}]": "result"}
    assert offered("%disco rm ke") == {"%disco rm kept": "result"}
    four.run("5")
    assert len([kind for kind in offered("%disco rm ").values() if kind == "result"]) == 2
    monkeypatch.delitem(sys.modules, "disco_magic.session.results")
    assert "result" not in offered("%disco rm ").values()


def test_an_unknown_subcommand_completes_no_names(trained, offered):
    assert not [kind for kind in offered("%disco nothing w").values() if kind.startswith("register")]


def test_lines_complete_before_there_is_a_session(shell, offered):
    assert "%disco get --help" in offered("%disco get ")
    assert "register" not in offered("%%disco --pull ").values()
    assert "group" not in offered("%%disco --group ").values()


def test_which_cells_run_on_the_workers_is_one_question(shell):
    front = shell.ip.__dict__["_disco_magic_extension"].front
    on = ("%%disco\n", "%%disco", "\n\n%%disco -w 0\nx", "%%time\n%%disco\nx", "%%disco\n%%time\nx")
    off = ("x", "", "%disco\nx", "%%discover\nx", "%%time\nx\n%%disco", "x\n%%disco", " %%disco")
    assert [is_spmd(front, cell) for cell in on + off] == [True] * len(on) + [False] * len(off)


def test_unloading_takes_completion_out_again(four, offered):
    completer = four.ip.Completer
    four.run("%%disco\nwinners = 1")
    assert offered("%%disco\nwinn")
    four.run("%reload_ext disco_magic")
    assert offered("%%disco\nwinn") == {"winners": "register"}
    four.run("%unload_ext disco_magic")
    assert "completions" not in vars(completer)
    assert offered("%%disco\nwinn") == {}


def test_what_others_put_into_the_completer_stays(bare):
    completer = bare.ip.Completer
    mine = vars(completer)["completions"] = completer.completions
    bare.run("%load_ext disco_magic")
    assert vars(completer)["completions"] is not mine
    bare.run("%unload_ext disco_magic")
    assert vars(completer)["completions"] is mine
    bare.run("%load_ext disco_magic")
    theirs = vars(completer)["completions"] = lambda *_: iter(())
    bare.run("%unload_ext disco_magic")
    assert vars(completer)["completions"] is theirs


@pytest.fixture
def ask(fresh):
    """Texts that the kernel offers at the end of a cell, and what each is said to be."""

    def complete(cell):
        sent = fresh.client.complete(cell, len(cell))
        content = fresh._reply(sent)["content"]
        found = content["metadata"]["_jupyter_types_experimental"]
        assert content["matches"] == [each["text"] for each in found]
        return {each["text"]: each["type"] for each in found}

    return complete


def test_the_kernel_completes_while_workers_are_busy(fresh, ask):
    fresh.ok("import builtins, threading\nbuiltins.gate = threading.Event()")
    cell = "shared = np.ones(3)\nif worker_id == 1: own = 1\nprint('begun')\nbuiltins.gate.wait(30)"
    sent = fresh.send(f"%%disco --nowait -o cell\nimport builtins\n{cell}")
    ran = fresh.finish(sent, fresh.until_text(sent, "begun", 4))
    assert ran.status == "ok"
    try:
        assert ask("%%disco\nshar") == {"shared": "register"}
        assert ask("%%disco\now") == {"own": "register\u00a0[1]"}
        assert set(ask("%%disco\nshared.sh")) == {".shape"}  # with its type if 40 ms are enough for that
        assert "--output" in ask("%%disco --out")
    finally:
        fresh.ok("builtins.gate.set()\ncell.wait()")


def test_names_of_the_session_that_a_cell_says(offered, shell):
    def lines(text):
        return {re.split("[ ,=]", found)[-1]: kind for found, kind in offered(text).items()}

    shell.run("%disco start -n 1")
    shell.run("import disco_magic\nfirst = disco_magic.session()\nfirst.run('thesis = 1')")
    shell.run("second = disco_magic.ThreadedSession(2)\nsecond.run('theirs = 1')")
    try:
        assert set(offered("%%disco --session first\nthes")) == {"thesis"}
        assert not offered("%%disco --session second\nthes")
        assert set(offered("%%disco --session second\nthei")) == {"theirs"}
        assert not offered("%%disco --session nobody\nthei")
        assert lines("%%disco --session second --pull thei") == {"theirs": "register"}
        assert "theirs" not in lines("%%disco --session first --pull ")
        assert set(lines("%%disco --session second -w ")) == {"all", "0", "1"}
        numbers = [str(shell.ip.user_ns[name].id) for name in ("first", "second")]
        assert lines("%%disco --session ") == dict.fromkeys(["first", "second", *numbers], "session")
        assert lines("%%disco --session=s") == {"second": "session"}
        shell.run("second.shutdown()")
        assert lines("%%disco --session ") == dict.fromkeys(["first", numbers[0]], "session")
        assert not offered("%%disco --session second\nthei")
    finally:
        shell.ip.user_ns["second"].shutdown()


def test_what_a_session_has_not_or_keeps_for_our_own_files_is_not_offered(four, either):
    """IPython adds all names of the class to what an object says that it has, unless Jedi is there."""
    four.ip.user_ns["s"] = session()
    assert set(either("s.pu")) == {"s.put"}
    assert "s.keep_pace" not in either("s.ke")
