"""Variables across the border, in a real shell: copies, and nothing half done."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
from IPython.core.error import UsageError

from disco_magic.callers.current import calling_worker
from disco_magic.errors import UsageMistake, WorkerError
from disco_magic.notebook.variables import fetched
from disco_magic.session.config import ThreadedSession
from disco_magic.session.current import make_current, session


def names(shell):
    return session().names()


def held(name):
    """What the workers hold, as copies."""
    return session()[name].get_all()


# --- to the workers and back -----------------------------------------------------------------------


def test_put_goes_to_worker_0_and_broadcast_to_all(four):
    four.ip.user_ns["a"] = np.arange(3)
    four.run("%disco put a")
    four.run("%%disco\na is None")
    assert four.lines[-2:] == ["[0]   False", "[1-3] True"]
    four.run("%disco broadcast a")
    four.run("%%disco\na[0] += worker_id\na.tolist()")
    assert four.lines[-4:] == [f"[{w}] [{w}, 1, 2]" for w in range(4)]
    assert four.ip.user_ns["a"].tolist() == [0, 1, 2]


def test_put_knows_one_worker_only_and_names_the_command_for_others(four):
    four.run("w = 1")
    assert "%disco broadcast -w 2 copies to worker 2" in str(four.fail("%disco put w -w 2", UsageError))


def test_any_object_that_can_be_copied_can_be_put(crew):
    crew.ip.user_ns["config"] = {"lr": 0.1}
    crew.run("%disco broadcast config")
    crew.run("%%disco\nconfig['lr']")
    assert crew.lines[-1].endswith("] 0.1")


def test_get_gives_a_copy_of_worker_0_s_value(crew):
    crew.run("%%disco\nx = np.full(2, worker_id)\ny = 'text'")
    crew.run("%disco get x y")
    crew.ip.user_ns["x"][:] = 9
    crew.run("%%disco -w 0\nx.tolist()")
    assert crew.lines[-1] == "[0] [0, 0]"
    assert crew.ip.user_ns["y"] == "text"


@pytest.mark.parametrize("command", ["%disco put v", "%disco broadcast v", "%%disco --push v\npass"])
def test_what_the_workers_change_in_their_copies_the_notebook_does_not_see_and_vice_versa(crew, command):
    crew.run("class Model:\n    pass\nv = Model()\nv.weights, v.names = [1.0], {'a': [1]}")
    crew.run(command)
    crew.run("v.weights.append(2.0)\nv.names['a'].append(2)")
    crew.run("%%disco -w 0\nv.weights.append(worker_id)\nv.names['a'][0] = 'theirs'")
    assert held("v")[0].weights == [1.0, 0]
    assert crew.ip.user_ns["v"].weights == [1.0, 2.0]
    assert crew.ip.user_ns["v"].names == {"a": [1, 2]}


def test_a_table_is_copied_with_the_lists_in_its_cells(crew, pandas):
    inner = [1]
    crew.ip.user_ns["t"] = table = pandas.DataFrame({"a": [inner, [2]], "b": [3, 4]})
    crew.run("%disco broadcast t")
    crew.run("%%disco\nt['a'].iloc[0].append(worker_id)")
    inner.append("theirs")
    assert [part["a"].iloc[0] for part in held("t")] == [[1, worker] for worker in range(crew.n)]
    assert table.shape == held("t")[0].shape == (2, 2)


def test_a_reference_gives_its_register_the_name(crew):
    crew.ip.user_ns["d"] = session().call_packed(lambda: 5)
    crew.run("%disco broadcast d")
    assert held("d") == [5] * crew.n


@pytest.mark.parametrize("line", ["put {%s}", "put $%s", "broadcast {%s}"])
def test_braces_and_dollars_on_a_line_name_a_variable_with_the_name(four, line):
    four.ip.user_ns.update(a="good", good=1)
    four.run(f"%disco {line % 'a'}")
    assert names(four) == ("good",)
    four.fail(f"%disco {line % 'nobody'}", UsageError)  # as IPython leaves unknown names
    assert f"{(line % 'nobody').split()[-1]!r} is not a variable name" in four.err


# --- nothing half done -----------------------------------------------------------------------------


class Fickle:
    """Can be copied once."""

    def __deepcopy__(self, memo):
        if calling_worker() is not None:
            raise MemoryError("no room on the worker")
        return copy.copy(self)


SENDING = ["%disco put {}", "%disco broadcast {}", "%%disco --push {}\nran = 1", "%disco scatter {}"]


def sent(command, *variables):
    return command.format((" " if command.startswith("%disco") else ",").join(variables))


@pytest.mark.parametrize("command", SENDING)
def test_a_variable_that_cannot_be_copied_is_named_and_none_is_sent(four, command):
    bad = threading.Lock()
    four.ip.user_ns.update(good=[1], bad=[bad] if "scatter" in command else bad)
    message = str(four.fail(sent(command, "good", "bad"), UsageMistake))
    assert message.startswith("'bad' was not sent: a value of type")
    assert "cannot be copied" in message
    assert message.endswith("copy the arrays or plain data inside it instead")
    assert names(four) == ()


@pytest.mark.parametrize("command", SENDING)
def test_a_variable_that_does_not_exist_is_named_and_none_is_sent(four, command):
    four.ip.user_ns["good"] = [1]
    assert "no variable 'goood'; did you mean 'good'?" in str(
        four.fail(sent(command, "good", "goood"), UsageMistake)
    )
    assert names(four) == ()


@pytest.mark.parametrize("command", SENDING)
@pytest.mark.parametrize("name", ["_private", "class", "a-b"])
def test_what_is_no_name_of_a_register_is_refused_and_none_is_sent(four, command, name):
    four.ip.user_ns.update({"good": [1], "_private": [1]})
    four.fail(sent(command, "good", name), UsageError)
    assert repr(name) in four.err
    assert names(four) == ()


def test_what_a_worker_cannot_copy_leaves_the_names_as_they_were(four):
    four.ip.user_ns.update(good=1, bad=Fickle())
    four.run("%%disco\ngood = bad = 'before'")
    assert "no room on the worker" in str(four.fail("%disco broadcast good bad", WorkerError))
    assert held("good") == held("bad") == ["before"] * 4


def test_a_reference_of_another_session_is_refused_by_its_name(crew):
    own = session()
    with ThreadedSession(1) as other:
        crew.ip.user_ns.update(good=1, foreign=other.call_packed(lambda: 5))
        make_current(own)
        message = str(crew.fail("%disco broadcast good foreign", UsageMistake))
    assert message.startswith("'foreign' was not sent: ")
    assert f"belongs to session {other.id}" in message
    assert own.names() == ()


FETCHING = ["%disco get {}", "%disco gather {}", "%%disco --pull {}\npass"]


@pytest.mark.parametrize("command", FETCHING)
@pytest.mark.parametrize("bad", ["lock", "elsewhere"])
def test_a_register_that_cannot_be_fetched_is_named_and_no_variable_is_bound(four, command, bad):
    four.run("%%disco\nimport threading\ngood, lock = 1, threading.Lock()\nif worker_id == 3: elsewhere = 1")
    message = str(four.fail(sent(command, "good", bad), UsageMistake))
    assert message.startswith(f"{bad!r} was not fetched from worker")
    assert ("cannot be copied" if bad == "lock" else ": only worker 3 has it") in message
    assert "good" not in four.ip.user_ns


def test_arrays_with_labels_are_neither_joined_nor_split_without_them(four):
    body = "__module__, to_numpy, __array__ = 'xarray.core', None, lambda *_: np.ones(4)"
    four.run(f"%%disco\nclass DataArray:\n    {body}\nx = DataArray()")
    message = str(four.fail("%disco gather x", UsageMistake))
    assert message.endswith("%disco get x -w all makes a list of the workers' values")
    four.run("%disco get x")
    message = str(four.fail("%disco scatter x", UsageMistake))
    assert message.endswith("%disco broadcast x copies it whole to every worker")


def test_who_asks_the_worker_that_lacks_it_is_told_how_to_ask_another(four):
    four.run("%%disco -w 2\nelsewhere = 5")
    message = str(four.fail("%disco get elsewhere", UsageMistake))
    assert message.endswith("only worker 2 has it; %disco get with -w 2 fetches it from there")
    four.run("%disco get elsewhere -w 2")
    assert four.ip.user_ns["elsewhere"] == 5


@pytest.mark.parametrize(("lacking", "others"), [(0, "[1-3]"), (3, "[0-2]")])
def test_where_one_has_none_and_the_others_what_cannot_be_copied_that_is_told(four, lacking, others):
    four.run(f"%%disco\nimport threading\nif worker_id != {lacking}: lock = threading.Lock()")
    message = str(four.fail("%disco gather lock", UsageMistake))
    assert message.startswith(f"'lock' was not fetched from workers {others}: ")
    assert "cannot be copied" in message


def test_registers_of_other_workers_can_be_fetched_one_or_a_list(four):
    four.run("%%disco\nx, y = worker_id, [worker_id]\nif worker_id == 3: mine = 'third'")
    for options, x in (
        ("-w 2", 2),
        ("-w 2,0", [2, 0]),
        ("-w all", [0, 1, 2, 3]),
        ("-w 1:3", [1, 2]),
        ("", 0),
    ):
        four.run(f"%disco get x y {options}")
        assert four.ip.user_ns["x"] == x
        assert four.ip.user_ns["y"] == ([x] if isinstance(x, int) else [[each] for each in x])
    four.run("%disco get mine -w 3")
    assert four.ip.user_ns["mine"] == "third"
    assert "only worker 3 has it" in str(four.fail("%disco get mine", UsageMistake))
    assert "there is no worker 7" in str(four.fail("%disco get x -w 7", UsageMistake))


def test_what_failed_before_is_raised_as_it_is_when_something_is_fetched(four):
    four.run("%%disco\ngood = 1")
    session().call_packed(lambda: 1 / 0, workers=(0,))
    assert "ZeroDivisionError" in str(four.fail("%disco get good", WorkerError))
    four.run("%disco get good")
    assert four.ip.user_ns["good"] == 1


# --- several at once ------------------------------------------------------------------------------------


def test_what_is_one_object_in_two_variables_is_one_on_the_workers(four):
    four.run("import numpy as np\nw = [np.zeros(2)]\nopt = {'params': [w]}\nname, lr = 'a', .1")
    asked = "\nopt['params'][0] is w"
    assert four.run(f"%%disco --push w,name,opt,lr{asked}").values == [True] * 4
    four.run("%disco broadcast opt lr w")
    assert four.run(f"%%disco{asked}").values == [True] * 4
    four.run("%disco put w opt")
    assert four.run("%%disco\nopt['params'][0] is w if worker_id == 0 else (opt, w)").values == [
        True,
        *[(None, None)] * 3,
    ]


def test_what_is_one_object_in_two_registers_is_one_in_the_notebook(four):
    four.run("%%disco\nw = [np.full(2, worker_id)]\nopt = {'params': [w]}")
    four.run("%disco get opt w")
    assert four.ip.user_ns["opt"]["params"][0] is four.ip.user_ns["w"]
    four.run("%%disco -w 2 --pull w,opt\n1")
    assert four.ip.user_ns["opt"]["params"][0] is four.ip.user_ns["w"]
    assert four.ip.user_ns["w"][0].tolist() == [2, 2]


def test_which_of_several_cannot_travel_is_said_and_nothing_is_bound(four):
    four.run("import threading\nfirst, lock, last = [1], [threading.Lock()], {}")
    error = four.fail("%disco broadcast first lock last", UsageMistake)
    assert str(error).startswith("'lock' was not sent")
    assert "first" not in names(four)
    four.run("%%disco\nimport threading\nfirst, lock, last = [1], [threading.Lock()], {}")
    four.run("del first, last")
    error = four.fail("%disco get first lock last", UsageMistake)
    assert str(error).startswith("'lock' was not fetched")
    assert "first" not in four.ip.user_ns


def test_what_failed_before_is_raised_and_not_taken_for_a_value_that_cannot_travel(four):
    four.run("%%disco\na, b = [1], [2]")

    def mistaken():
        raise UsageMistake("done wrongly")

    session().call_packed(mistaken)
    with pytest.raises(WorkerError, match="done wrongly"):
        fetched(session(), {"a": "a", "b": "b"}, (0, 1))
    assert fetched(session(), {"a": "a", "b": "b"}, (0, 1)) == {"a": [[1], [1]], "b": [[2], [2]]}


# --- parts -----------------------------------------------------------------------------------------


@pytest.fixture
def split_model(four):
    four.run("%disco stop\n%disco start --mesh pp=2,tp=2")
    four.run("%%disco\nparams = [{'wk': np.full((1, 2), worker_id)}]; y = worker_id")
    return four


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gather w=params[0]['wk'] --over tp --axis 1", [[0, 0, 1, 1]]),
        ("gather w=params[0]['wk'] --over tp --axis 1 -w 3", [[2, 2, 3, 3]]),
        ("gather w=params[0]['wk'] -w 1,3", [[1, 1], [3, 3]]),
        ("gather w=y -w 1:", [1, 2, 3]),
        ("get w=params[0]['wk'] -w 2", [[2, 2]]),
        ("get w=y z=params[0]", 0),
    ],
)
def test_a_part_gets_into_the_variable_that_is_named(split_model, line, expected):
    split_model.run(f"%disco {line}")
    assert np.array_equal(split_model.ip.user_ns["w"], expected)


@pytest.mark.parametrize("also", ["", " z=y"])
def test_a_part_that_is_not_there_is_named_and_nothing_is_bound(split_model, also):
    error = split_model.fail(f"%disco get w=params[0]['wq']{also}", UsageMistake)
    assert str(error) == (
        "\"params[0]['wq']\" was not fetched from worker 0: there is no params[0]['wq']; did you mean "
        "\"params[0]['wk']\"?"
    )
    assert not {"w", "z"} & split_model.ip.user_ns.keys()


@pytest.mark.parametrize("command", ["get", "gather"])
def test_a_part_that_is_written_as_another_kind_is_shown_as_it_is_written(four, command):
    four.run("%%disco\np, n, x, many = {'w': np.ones(2), 'b': 0.5}, {'lr': 0.1}, np.ones(2), [{'a': 1}]")
    for line, hint in {
        "w=p.w": "there is no p.w; did you mean \"p['w']\"?",
        "w=p.w1": "there is no p.w1; did you mean \"p['w']\"?",
        "w=p.b": "there is no p.b; did you mean \"p['b']\"?",
        "w=p.other": "there is no p.other; there are: p['w'], p['b']",
        "w=n.lr": "there is no n.lr; did you mean \"n['lr']\"?",
        "w=x.a": "there is no x.a; it has no parts",
        "w=x[i]": "[i] is no index of it: only numbers, lists of them, slices and ... are; "
        "{i} stands for what i is in the notebook",
        "w=x[]": "[] is no index of it: only numbers, lists of them, slices and ... are; "
        "{i} stands for what i is in the notebook",
        "w=x[::0]": "[::0] is no index of it: slice step cannot be zero",
        "w=x[2]": "[2] is no index of it: index 2 is out of bounds for axis 0 with size 2",
        "w=many[0][5]": "[0][5] is no index of it: KeyError: 5",
    }.items():
        assert str(four.fail(f"%disco {command} {line}", UsageMistake)).endswith(hint)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("x[0:2]", [[0, 1, 2], [3, 4, 5]]),
        ("x[1]", [3, 4, 5]),
        ("x[1][0:1]", [3]),
        ("x[(1,0)]", 3),
        ("x[(2)][(1,)]", 7),
        ("x[:,-1]", [2, 5, 8, 11]),
        ("x[1:, -1]", [5, 8, 11]),
        ("x[[0, 3]]", [[0, 1, 2], [9, 10, 11]]),
        ("p['two  words']", 5),
        ("x[...,::2][0]", [0, 2]),
        ("p['w'][0][1:]", [2, 3]),
        ("many[1:]", [8, 9]),
        ("p[1][1:]", [5, 6]),
        ("p[1][(2,)]", 6),
    ],
)
def test_elements_and_slices_get_into_a_variable_like_parts(four, part, expected):
    four.run("%%disco\nx = np.arange(12).reshape(4, 3); many = [7, 8, 9]")
    four.run("%%disco\np = {'w': [[1, 2, 3]], 'two  words': 5, 1: np.array([4, 5, 6])}")
    four.run(f"%disco get w={part}")
    assert np.array_equal(four.ip.user_ns["w"], expected)
    four.run(f"v = %disco get {part}")
    assert np.array_equal(four.ip.user_ns["v"], expected)


@pytest.mark.parametrize("command", ["get", "gather"])
def test_a_part_whose_value_is_assigned_needs_no_other_variable(split_model, command):
    before = {*split_model.ip.user_ns}
    split_model.run(f"v = %disco {command} params[0]['wk']")
    assert split_model.ip.user_ns["v"].tolist() == (
        [[0, 0]] if command == "get" else [[each] * 2 for each in range(4)]
    )
    assert {name for name in {*split_model.ip.user_ns} - before if not name.startswith("_")} <= {"v"}


def test_which_workers_along_an_axis_are_those_with_one_worker(split_model):
    assert "-w names one worker, '1,2' names 2" in str(split_model.fail("%disco gather y -w 1,2 --over tp"))


def test_a_part_without_a_variable_says_how_to_name_one(split_model):
    split_model.fail("%disco get params[0]['wk']", UsageError)
    assert "for a part of params name the variable: w=params[0]['wk']" in split_model.err


def test_a_variable_that_is_to_get_two_things_gets_none(split_model):
    assert "'w' is to get y and params" in str(split_model.fail("%disco get w=y w=params", UsageMistake))
    assert "w" not in split_model.ip.user_ns
