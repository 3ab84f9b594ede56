"""What `session.run` prints in a plain cell of a notebook."""

from __future__ import annotations

from tests.notebook.handles.cells import GATE, WAITING

RUN = "import disco_magic as disco\ndisco.session().run('print(worker_id)\\nworker_id').stdout"


def test_in_a_plain_cell_workers_have_their_numbers(four):
    text = four.run(RUN)
    assert text == {worker: f"{worker}\n" for worker in range(4)}
    assert sorted(four.lines[:4]) == [f"[{worker}] {worker}" for worker in range(4)]


def test_in_a_kernel_it_belongs_to_the_cell(fresh):
    ran = fresh.ok(RUN)
    assert sorted(ran.lines) == [f"[{worker}] {worker}" for worker in range(4)]
    assert fresh.ok("import sys\ntype(sys.stdout).__name__").value == "'OutStream'"


def test_beside_a_cell_that_goes_on_each_keeps_its_text(four):
    four.run(GATE)
    four.run(f"{WAITING}print('late')")
    four.run("import disco_magic as disco\nother = disco.ThreadedSession(2)")
    assert four.run("other.run('print(worker_id)').stdout") == {0: "0\n", 1: "1\n"}
    four.run("builtins.gate.set()\nh.wait()\nother.shutdown()")
    assert four.run("h.stdout") == dict.fromkeys(range(4), "late\n")


def test_what_cells_find_as_print_is_pickled_as_python_s(four):
    four.run("%%disco\nimport pickle\npickle.loads(pickle.dumps({'log': print}))['log'](worker_id)")
    assert sorted(four.lines) == [f"[{worker}] {worker}" for worker in range(4)]


def test_what_the_notebook_captures_is_its_own_and_not_that_of_cells_that_go_on(four):
    four.run(f"{GATE}\nbuiltins.printed = threading.Event()")
    four.run(f"{WAITING}if worker_id == 0:\n    print('late')\n    builtins.printed.set()")
    capture = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as captured:\n"
    capture += "    print('mine')\n    builtins.gate.set()\n    builtins.printed.wait(20)"
    four.run(capture)
    assert four.ip.user_ns["captured"].getvalue() == "mine\n"
    four.run("h.wait()")
    assert four.run("h.stdout[0]") == "late\n"
