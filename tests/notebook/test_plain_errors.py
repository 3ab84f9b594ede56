"""Errors of this package in plain cells, as IPython shows them."""

from __future__ import annotations

import signal
import threading

import pytest

from disco_magic.errors import DiscoError, UnknownName, UsageMistake, WorkerError
from tests.session.conftest import main_waits, until

SESSION = "import disco_magic as disco\ns = disco.session()"


def test_of_a_failure_on_a_worker_the_line_of_the_cell_is_shown_and_no_line_of_ours(four):
    four.run(SESSION)
    four.fail("x = 1\ns.call_packed(lambda: 1 / 0).get(2)", WorkerError)
    shown = four.out + four.err
    assert "----> 2 s.call_packed(lambda: 1 / 0).get(2)" in shown
    assert "WorkerError: call <lambda> failed on worker" in shown
    assert "ZeroDivisionError: division by zero" in shown
    assert "disco_magic/" not in shown


def test_of_a_syntax_error_in_a_text_for_the_workers_no_line_of_ours_is_shown(four):
    four.run(SESSION)
    four.fail("x = 1\ns.run('a b')", SyntaxError)
    shown = four.out + four.err
    for line in ("s.run('a b')", "    a b\n", "SyntaxError: invalid syntax"):
        assert line in shown
    assert "disco_magic/" not in shown
    assert "ast.py" not in shown
    four.ip.run_line_magic("unload_ext", "disco_magic")
    assert "structured_traceback" not in vars(four.ip.SyntaxTB)
    four.run("%load_ext disco_magic")


def test_functions_of_the_user_on_the_way_are_shown(four, tmp_path, monkeypatch):
    (tmp_path / "on_the_way.py").write_text(
        "def load(session):\n    return session.load_safetensors('/none')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    four.run(SESSION)
    four.fail("import on_the_way\ndef start():\n    on_the_way.load(s)\nstart()", UsageMistake)
    shown = four.out + four.err
    for line in ("----> 4 start()", "on_the_way.load(s)", "return session.load_safetensors('/none')"):
        assert line in shown
    assert "cannot be read: No such file" in shown
    assert "disco_magic/" not in shown


def test_what_is_written_for_a_class_of_ours_is_not_shown(four):
    four.run(SESSION)
    four.fail("disco.ThreadedSession(0)", UsageMistake)
    shown = four.out + four.err
    assert "----> 1 disco.ThreadedSession(0)" in shown
    assert "<string>" not in shown
    four.fail("exec('def f():\\n    s.check(timeout=-1)')\nf()", UsageMistake)
    assert "<string>:2" in four.out + four.err  # the user's own


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        ("s['x'] + 1", TypeError, "ref.get(worker) gives a copy of one"),
        ("np.mean(s['x'])", TypeError, "ref.get(worker) gives a copy of one"),
        ("s['x'].shape", AttributeError, "ref.info() shows its shape on every worker"),
        ("s.gather('x')", AttributeError, "%disco gather a joins the workers' parts"),
    ],
)
def test_what_python_has_errors_of_its_own_for_is_refused_without_a_line_of_ours(four, asked, kind, said):
    # These are no errors of our classes: IPython showed the line of ours that raised them, and its file.
    four.run(f"import numpy as np\n{SESSION}")
    four.run("%%disco\nx = np.ones(3)")
    four.fail(asked, kind)
    shown = four.out + four.err
    assert f"----> 1 {asked}" in shown
    assert said in shown
    assert "disco_magic/" not in shown


def test_an_error_that_happens_in_our_code_is_shown_with_its_line(four):
    four.fail("from disco_magic.phrases import ranges\nranges(None)", TypeError)
    assert "disco_magic/" in four.out + four.err


def test_verbose_shows_all(four):
    four.run(SESSION)
    four.run("%xmode Verbose")
    four.fail("s['nothing']", UnknownName)
    assert "disco_magic/" in four.out + four.err


@pytest.mark.parametrize("mode", ["Plain", "Minimal", "Context"])
def test_other_modes_are_kept(four, mode):
    four.run(SESSION)
    four.run(f"%xmode {mode}")
    four.fail("s['nothing']", UnknownName)
    shown = four.out + four.err
    assert ("s['nothing']" in shown) is (mode != "Minimal")
    assert "register 'nothing' is not defined on any worker" in shown
    assert "disco_magic/" not in shown


def test_what_the_error_came_from_is_shown_too(four):
    four.run(SESSION)
    four.fail("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    s['nothing']", UnknownName)
    shown = four.out + four.err
    assert "ZeroDivisionError" in shown
    assert "During handling" in shown


def test_without_the_extension_ipython_shows_all_lines(four):
    four.run(SESSION)
    four.ip.user_ns["s"].registers()
    assert "_render_traceback_" in vars(DiscoError)
    four.ip.run_line_magic("unload_ext", "disco_magic")
    assert "_render_traceback_" not in vars(DiscoError)
    four.fail("raise disco.errors.DiscoError('mine')", DiscoError)
    assert "DiscoError: mine" in four.out + four.err
    four.run("%load_ext disco_magic")


def test_commands_show_the_message_alone(four):
    four.fail("%disco put nothing", DiscoError)
    shown = (four.out + four.err).strip()
    assert "Traceback" not in shown
    assert len(shown.splitlines()) <= 2


@pytest.fixture
def struck(four, gate):
    """Executes a plain cell that waits for workers who do not come, and presses Ctrl-C; what is shown."""

    def run(source):
        def strike():
            until(main_waits)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        striker = threading.Thread(target=strike, daemon=True)
        striker.start()
        four.fail(source, KeyboardInterrupt)
        striker.join()
        return four.out + four.err

    four.run(SESSION)
    four.ip.user_ns["s"].call_packed(gate)
    gate.arrived(4)
    return run


WAITING = "def wait():\n    s.sync_all()\nwait()"


def test_of_ctrl_c_in_a_wait_the_lines_of_the_cell_are_shown_and_what_the_workers_do(struck):
    shown = struck(WAITING)
    for line in ("----> 3 wait()", "----> 2     s.sync_all()"):
        assert line in shown
    assert "KeyboardInterrupt: sync was interrupted, and workers [0-3] go on" in shown
    assert "disco_magic/" not in shown


@pytest.mark.parametrize("mode", ["Plain", "Minimal"])
def test_ctrl_c_in_a_wait_keeps_the_other_modes(four, struck, mode):
    four.run(f"%xmode {mode}")
    shown = struck(WAITING)
    assert ("wait()" in shown) is (mode == "Plain")
    assert "sync was interrupted" in shown
    assert "disco_magic/" not in shown


def test_verbose_shows_all_of_ctrl_c_in_a_wait(four, struck):
    four.run("%xmode Verbose")
    assert "disco_magic/" in struck(WAITING)


def test_ctrl_c_in_the_users_own_code_is_shown_as_ever(four):
    four.fail("import signal\nsignal.raise_signal(signal.SIGINT)", KeyboardInterrupt)
    shown = four.out + four.err
    assert "----> 2 signal.raise_signal(signal.SIGINT)" in shown
    assert "InteractiveShell" not in shown


@pytest.mark.parametrize("mode", ["Plain", "Context", "Verbose", "Minimal"])
@pytest.mark.parametrize("error", [KeyError("it"), UsageMistake("it"), KeyboardInterrupt("it")], ids=repr)
def test_an_error_where_the_code_has_no_line_is_shown_at_a_line_before(four, error, mode):
    # IPython asserts that there is one, and an interrupt may come where a loop jumps back.
    four.ip.user_ns["error"] = error
    four.run(f"%xmode {mode}")
    # Of each instruction that it has no place. For as many as there are: a tracer reads them all.
    four.run(
        "def bare():\n    raise error\nold = bare.__code__\n"
        "bare.__code__ = old.replace(co_linetable=b'\\xf8' * (len(old.co_code) // 2))"
    )
    four.fail("bare()", type(error))
    shown = four.out + four.err
    assert f"{type(error).__name__}: {error}" in shown
    assert "Unexpected exception formatting" not in shown
    assert ("bare()" in shown) is (mode != "Minimal")


def test_without_the_extension_ctrl_c_is_ipythons_again(four, struck):
    assert "structured_traceback" in vars(four.ip.InteractiveTB)
    four.ip.run_line_magic("unload_ext", "disco_magic")
    assert "structured_traceback" not in vars(four.ip.InteractiveTB)
    four.run("%load_ext disco_magic")


def test_who_has_taken_the_place_of_ours_keeps_it(four):
    tb, theirs = four.ip.InteractiveTB, []
    tb.structured_traceback = theirs.append
    four.ip.run_line_magic("unload_ext", "disco_magic")
    assert vars(tb).pop("structured_traceback") == theirs.append
    four.run("%load_ext disco_magic")


def test_in_a_kernel_the_reply_has_the_same_lines(fresh):
    fresh.ok(SESSION)
    ran = fresh.run("s.call_packed(lambda: 1 / 0).get(2)")
    text = "\n".join(ran.error["traceback"])
    assert "WorkerError" in text
    assert "disco_magic/" not in text
