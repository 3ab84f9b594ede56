"""Errors of this package in plain cells, as IPython shows them."""

from __future__ import annotations

import pytest

from disco_magic.errors import DiscoError, UnknownName, UsageMistake, WorkerError

SESSION = "import disco_magic as disco\ns = disco.session()"


def test_of_a_failure_on_a_worker_the_line_of_the_cell_is_shown_and_no_line_of_ours(four):
    four.run(SESSION)
    four.fail("x = 1\ns.call_packed(lambda: 1 / 0).get(2)", WorkerError)
    shown = four.out + four.err
    assert "----> 2 s.call_packed(lambda: 1 / 0).get(2)" in shown
    assert "WorkerError: call <lambda> failed on worker" in shown
    assert "ZeroDivisionError: division by zero" in shown
    assert "disco_magic/" not in shown


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


def test_in_a_kernel_the_reply_has_the_same_lines(fresh):
    fresh.ok(SESSION)
    ran = fresh.run("s.call_packed(lambda: 1 / 0).get(2)")
    text = "\n".join(ran.error["traceback"])
    assert "WorkerError" in text
    assert "disco_magic/" not in text
