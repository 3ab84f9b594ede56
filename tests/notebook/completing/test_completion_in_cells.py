"""Tab completion in cells that run on the workers, from the names that they have."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

from tests.notebook.completing.offering import MODEL


@pytest.fixture
def trained(four):
    """Four workers with registers, and a variable in the notebook."""
    four.ip.user_ns["weights"] = 1
    four.run("%%disco\nwinners = np.ones(worker_id + 1)\nloss = 1.0\nif worker_id in (0, 2): odd = 1")
    return four


def test_names_are_the_workers_and_say_where_they_differ(trained, either):
    assert either("%%disco\nwin") == {"winners": "register\u00a0\u2260"}
    assert either("%%disco\nlos") == {"loss": "register"}
    assert either("%%disco\nod") == {"odd": "register\u00a0[0,2]"}
    assert either("%%disco -w 0\nx = 1\nf(2-win") == {"f(2-winners": "register\u00a0\u2260"}
    assert either("%%time\n%%disco\nwin") == {"winners": "register\u00a0\u2260"}


def test_workers_that_differ_among_those_that_have_a_name_are_marked(four, offered):
    four.run("%%disco\nif worker_id: some = 1 if worker_id == 1 else 1.0")
    assert offered("%%disco\nsom") == {"some": "register\u00a0[1-3]\u00a0\u2260"}


def test_what_lies_behind_the_names_is_offered(crew, either):
    assert either("%%disco\nworker") == {"worker": "instance", "worker_id": "instance"}
    assert either("%%disco\nallr") == {"allreduce": "function", "allreduce_tree": "function"}
    assert either("%%disco\nnum_w") == {"num_workers": "instance"}
    assert either("%%disco\nn")["np"] == either("%%disco\nx")["xp"] == "module"
    assert either("%%disco\nnp.linalg.nor") == {"np.linalg.norm": "function"}
    assert either("%%disco\nallreduce(1, o").keys() >= {"allreduce(1, op=", "allreduce(1, out="}


def test_attributes_keys_and_arguments_are_those_of_the_values(crew, either):
    crew.run(MODEL)
    assert either("%%disco\nmodel.") == {"model.weight": "instance", "model.forward": "function"}
    assert either("%%disco\nmodel.weight.sh") == {"model.weight.shape": "instance"}
    assert either("%%disco\ntable['") == {"table['alpha": "dict key", "table['beta": "dict key"}
    assert either("%%disco\ntable['beta']['") == {"table['beta']['gamma": "dict key"}
    assert either("%%disco\nmodel.forward(1, sc")["model.forward(1, scale="] == "param"
    assert either("%%disco\ndouble(1, ti") == {"double(1, times=": "param"}
    assert either("%%disco\narray.T.nd") == {"array.T.ndim": "instance"}


def test_keys_of_a_data_frame_are_its_columns(four, either):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    four.run("%%disco\nimport pandas, polars\ndata = {'width': [1], 'weight': [2]}")
    four.run("%%disco\ndf, pl = pandas.DataFrame(data), polars.DataFrame(data)")
    for name in "df", "pl":
        assert either(f'%%disco\n{name}["w').keys() == {f'{name}["width', f'{name}["weight'}


def test_arguments_are_those_of_the_innermost_call(four, either):
    four.run(MODEL)
    four.run(
        "%%disco\nclass Called:\n    def __call__(self, alpha, /, beta, *rest, gamma=1): pass\n"
        "called = Called()"
    )

    def arguments(code):
        return {
            name.rpartition(" ")[2] for name, kind in either(f"%%disco\n{code}").items() if kind == "param"
        }

    assert arguments("called( ") == {"beta=", "gamma="}
    assert arguments("called(1, gamma=')', ") == {"beta="}
    assert arguments("called(double(1, times=2), ") == {"beta=", "gamma="}
    assert arguments("called(  # (not this\n    1,\n    ") == {"beta=", "gamma="}
    assert arguments("x = double(called(1), [2], ") == {"value=", "times="}
    assert arguments("model.forward( sc") == {"scale="}
    for code in (
        "double([ ",
        "double(1) ",
        "x = ( ",
        "5( ",
        "nobody( ",
        "model. weight( ",
        "iter( ",
        "double(x. ti",
    ):
        assert arguments(code) == set()


def test_signatures_come_along(four, shell):
    four.run(MODEL)
    with provisionalcompleter():
        found = list(shell.ip.Completer.completions("%%disco\nmodel.for", 17))
    assert [each.signature for each in found] == ["(inputs, scale=2)"]


def test_a_name_that_only_another_worker_has_has_its_attributes(four, either):
    four.run("%%disco\nif worker_id == 2: here = np.ones(3)\nelse: there = 1")
    assert either("%%disco\nnp.add(here.sh") == {"np.add(here.shape": "instance"}
    assert either("%%disco\nher") == {"here": "register\u00a0[2]"}


def test_the_workers_that_run_the_cell_are_asked_first(four, offered):
    four.run("%%disco\nvalue = [] if worker_id < 2 else {}")
    assert "value.append" in offered("%%disco\nvalue.app")
    assert "value.setdefault" in offered("%%disco -w 2\nvalue.setd")
    assert "value.append" in offered("%%disco -g 0\nvalue.app")
    assert "value.append" in offered("%%disco -w 17\nvalue.app")
    assert "value.append" in offered("%%disco --nonsense\nvalue.app")


def test_of_the_notebook_s_variables_only_pushed_ones_are_offered(four, either):
    four.ip.user_ns["weights"] = [1]
    assert either("%%disco\nweig") == {}
    assert either("%%disco --push weights\nweig") == {"weights": "pushed"}
    assert either("%%disco --push weights\nweights.app") == {"weights.append": "function"}
    assert either("%%disco --push gone\nle").keys() == {"len"}


def test_magics_are_not_offered_where_they_cannot_run(four, either):
    assert either("%%disco\n%tim") == {}
    assert "%timeit" in either("%tim")


def test_names_of_the_workers_are_offered_neither_elsewhere_nor_as_attributes(trained, either):
    for cell in ("win", "x = 1\nwin", "%%time\nwin", "%%disco win", "%%disco\nx.win", "%%disco\nimport win"):
        assert not [name for name in either(cell) if name.endswith("winners")]
    assert "winners" not in either("%%disco\nwin", at=4)


def test_names_that_the_cell_binds_above_are_offered(four, either):
    cell = "%%disco\nfor index in range(3):\n    with open('x') as stream, open('y'):\n        "
    assert either(f"{cell}inde") == {"        index": "instance"}
    assert either(f"{cell}strea") == {"        stream": "instance"}
    cell = "%%disco\nimport os.path as ospath\nasync def work(first):\n    class Inner: pass\n    "
    assert {*either(f"{cell}osp"), *either(f"{cell}wor"), *either(f"{cell}firs"), *either(f"{cell}Inn")} >= {
        *(f"    {name}" for name in ("ospath", "work", "worker", "first", "Inner"))
    }
    assert either("%%disco\nearly = 1\n!ls\nearly?\n%time 1\nearl") == {"early": "instance"}
    assert either("%%disco\nthis is no Python\nle").keys() == {"len"}


def test_values_behind_the_cell_s_own_names_are_not_taken_for_the_cell_s(four, offered):
    four.run("%%disco\nvalue, array = [1], np.ones(3)")
    four.ip.Completer.use_jedi = True
    assert offered("%%disco\nvalue = 'text'\nvalue.uppe").keys() == {"value.upper"}
    assert offered("%%disco\nother = array + 1\nother.sum").keys() == {"other.sum"}
    assert offered("%%disco\nimport collections.ab").keys() == {"import collections.abc"}


def test_keywords_files_and_characters_complete_as_ever(four, either, tmp_path):
    (tmp_path / "data.bin").touch()
    assert either("%%disco\nyiel") == {"yield": "keyword"}
    assert [*either(f"%%disco\n!ls {tmp_path}/dat")] == [f"!ls {tmp_path}/data.bin"]
    assert [*either(f"%%disco\nopen('{tmp_path}/dat")] == [f"open('{tmp_path}/data.bin"]
    assert either("%%disco\n\\alp").keys() == {"\\alpha"}
    assert either("%%disco\n'le") == {}
    assert either("%%disco\nf'{le").keys() == {"f'{len"}
    assert "import numbers" in either("%%disco\nimport nu") or not four.ip.Completer.use_jedi


def test_the_rest_of_the_cell_stays(four, offered):
    four.run("%%disco\nvalue = {'key': [1]}")
    cell = "%%disco\nx = value.ke\ny = 2\n"
    assert offered(cell, at=cell.index("\ny")) == {"x = value.keys": "function"}


def test_hundreds_of_names_are_all_offered(four, either):
    four.run("%%disco\nclass Many: pass\nmany = Many()\nfor i in range(800): setattr(many, f'name_{i}', i)")
    assert len(either("%%disco\nmany.name_")) == 800


def test_verbs_complete_before_there_is_a_session_and_start_none(shell, either):
    assert either("%%disco\nallr") == {"allreduce": "function", "allreduce_tree": "function"}
    assert "worker.allreduce" in either("%%disco\nworker.allr")
    assert either("%%disco\nnp.one").keys() == {"np.ones", "np.ones_like"}
    shell.run("%disco status")
    assert "no session is running" in shell.out


def test_exit_is_offered_only_where_it_ends_the_kernel(shell, either):
    assert not either("%%disco\nexi")
    assert not either("%%disco\nqui")
    shell.run("%disco auto on")
    for _ in range(2):  # before there is a session, and after
        assert either("exi") == {"exit": "instance"}
        assert either("qui") == {"quit": "instance"}
        assert not either("x = 1\nexi")
        assert not either("%%disco\nexi")
        shell.run("%disco start -n 2")


def test_a_session_of_the_user_s_own_completes_too(shell, offered):
    shell.run("import disco_magic as disco\nsess = disco.ThreadedSession(2)\nsess.run('mine = 1')")
    assert offered("%%disco\nmin") == {"min": "function", "mine": "register"}
    shell.run("sess.shutdown()")
    assert offered("%%disco\nmin") == {"min": "function"}
