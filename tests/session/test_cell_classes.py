"""What cells define: one module for all workers and sessions, in which each worker finds its own."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import typing

import pytest

from disco_magic.errors import CellError

NET = """
import pickle, sys
class Net:
    class Layer:
        pass
    def __init__(self):
        self.weights, self.layer = [1.0, 2.0], Net.Layer()
def forward(x):
    return 2 * x
"""
ON_WORKER_0 = "saved = pickle.dumps((Net(), forward, Net)) if worker_id == 0 else None"


def saved_by(s, worker=0):
    return s["saved"].get(worker)


def test_what_one_worker_pickles_another_loads_as_its_own(session):
    s = session(3)
    s.run(NET)
    s.run(ON_WORKER_0)
    s.put("saved", saved_by(s))
    s.run("net, function, kind = pickle.loads(saved)")
    same = (
        "(type(net) is Net, isinstance(net.layer, Net.Layer), function is forward, kind is Net, net.weights)"
    )
    assert s.run(same).values == [(True, True, True, True, [1.0, 2.0])] * 3


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_worker_loads_what_it_has_saved_with_every_protocol(session, protocol):
    s = session(2)
    s.run(NET)
    s.put("protocol", protocol)
    for module in ("pickle", "pickle._dumps and pickle"):
        s.run(f"p = {module}\nback = p.loads(p.dumps(Net(), protocol))")
        assert s.run("type(back) is Net").values == [True, True]


def test_pickle_in_python_finds_the_worker_s_own_too(session):
    s = session(2)
    s.run(NET)
    assert s.run("type(pickle._loads(pickle._dumps(Net()))) is Net").values == [True, True]


def test_a_later_session_loads_it_once_the_class_is_defined_again(session):
    first = session(2)
    first.run(NET)
    first.run(ON_WORKER_0)
    saved = saved_by(first)
    first.shutdown()
    second = session(2)
    second.run(NET)
    second.put("saved", saved)
    second.run("net, function, kind = pickle.loads(saved)")
    assert second.run("type(net) is Net and function is forward and kind is Net").values == [True, True]


def test_a_restarted_session_loads_it_once_the_class_is_defined_again(session):
    s = session(2)
    s.run(NET)
    s.run(ON_WORKER_0)
    saved = saved_by(s)
    s.restart()
    s.run(NET)
    s.put("saved", saved)
    assert s.run("type(pickle.loads(saved)[0]) is Net").values == [True, True]


def test_a_class_that_is_not_defined_is_missed_where_it_is_loaded(session):
    first, second = session(2), session(2)
    first.run(NET)
    first.run(ON_WORKER_0)
    second.put("saved", saved_by(first))
    with pytest.raises(CellError, match=r"\[0-1\] .*'Net' .* have defined on the calling worker"):
        second.run("import pickle\npickle.loads(saved)")
    with pytest.raises(AttributeError, match=rf"have defined on workers \[0-1\] of session {second.id}"):
        pickle.loads(saved_by(first).replace(b"Net", b"Not"))  # noqa: S301 - our own bytes


def test_without_a_session_it_is_missed_as_well(session):
    s = session(1)
    s.run(NET)
    s.run(ON_WORKER_0)
    saved = saved_by(s)
    s.shutdown()
    with pytest.raises(AttributeError, match=r"'Net' .*what cells have defined: no session is running"):
        pickle.loads(saved)  # noqa: S301 - our own bytes


def test_the_notebook_loads_with_the_classes_of_worker_0_of_its_session(session):
    first, second = session(2), session(2)
    for s in (first, second):
        s.run(NET)
    first.run(ON_WORKER_0)
    net, function, kind = pickle.loads(saved_by(first))  # noqa: S301 - our own bytes
    assert (type(net), function, kind) == (kind, second["forward"].get(0), second["Net"].get(0))


def test_the_notebook_finds_a_class_that_one_worker_alone_has(session):
    s = session(3)
    s.run(NET, workers=[2])
    saved = s.run("pickle.dumps(Net())", workers=[2])[2]
    assert type(pickle.loads(saved)) is s["Net"].get(2)  # noqa: S301 - our own bytes


def test_sessions_at_the_same_time_find_each_their_own(session):
    first, second = session(2), session(2)
    for s in (first, second):
        s.run(NET)
    first.run(ON_WORKER_0)
    for s in (second, first):
        s.put("saved", saved_by(first))
        assert s.run("type(pickle.loads(saved)[0]) is Net").values == [True, True]


def test_a_thread_that_a_cell_starts_finds_what_its_code_s_worker_has(session):
    s = session(2)
    s.run(NET)
    s.run(
        "import threading\n"
        "def load(): found.append(pickle.loads(pickle.dumps(Net())))\n"
        "found = []\n"
        "thread = threading.Thread(target=load)\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    assert s.run("type(found[0]) is Net").values == [True, True]


def test_a_function_of_a_worker_that_the_notebook_calls_finds_that_worker_s_classes(session):
    s = session(2)
    s.run(NET)
    s.run("def there_and_back(): return type(pickle.loads(pickle.dumps(Net()))) is Net")
    assert s["there_and_back"].get(1)()


def test_what_cells_define_is_called_the_same_everywhere(session):
    s = session(2)
    s.run(NET)
    assert (
        s.run("(repr(Net), Net.__module__, forward.__module__, __name__)").values
        == [("<class '__disco__.Net'>", "__disco__", "__disco__", "__disco__")] * 2
    )


DECLARED = """
from __future__ import annotations
import abc, collections, dataclasses, enum, inspect, pickle, sys, typing

class Plain:
    other: Point

@dataclasses.dataclass
class Point:
    x: int
    kind: typing.ClassVar[str] = 'point'
    _: dataclasses.KW_ONLY
    y: int = 0
    extra: dataclasses.InitVar[int] = 3

@dataclasses.dataclass(slots=True, frozen=True)
class Slotted(abc.ABC):
    x: int
    later: Point | None = None

Pair = collections.namedtuple('Pair', 'a b')

class Typed(typing.NamedTuple):
    a: int
    b: Point

Mode = enum.Enum('Mode', 'FAST SLOW')

class Mask(enum.IntFlag):
    READ = 1
    WRITE = 2

@enum.global_enum
class Colour(enum.Enum):
    RED = 1

def hinted(a: Point, b: Slotted) -> Mode:
    pass
"""


@pytest.mark.parametrize(
    "asked",
    [
        "typing.get_type_hints(Plain) == {'other': Point}",
        "typing.get_type_hints(hinted) == {'a': Point, 'b': Slotted, 'return': Mode}",
        "typing.get_type_hints(Typed)['b'] is Point",
        "[f.name for f in dataclasses.fields(Point)] == ['x', 'y'] and Point(1, y=2).y == 2",
        "pickle.loads(pickle.dumps(Slotted(1, Point(2)))) == Slotted(1, Point(2))",
        "pickle.loads(pickle.dumps([Pair(1, 2), Typed(1, Point(2))])) == [Pair(1, 2), Typed(1, Point(2))]",
        "pickle.loads(pickle.dumps([Mode.FAST, Mask(3)])) == [Mode.FAST, Mask(3)]",
        "pickle.loads(pickle.dumps(Mode.FAST)) is Mode.FAST",
        "RED is Colour.RED",
        "inspect.getsource(hinted).startswith('def hinted')",
        "inspect.signature(hinted, eval_str=True).return_annotation is Mode",
        "inspect.getmodule(Plain) is sys.modules[__name__]",
        "vars(sys.modules[__name__]) is globals()",
        "'Plain' in dir(sys.modules[__name__])",
        "sys.modules[__name__].Plain is Plain and __import__(__name__).Plain is Plain",
    ],
)
def test_a_declaration_finds_its_worker_s_names(session, asked):
    s = session(2)
    s.run(DECLARED)
    assert s.run(asked).values == [True, True]


def test_what_a_cell_sets_in_its_module_is_bound_on_its_worker(session):
    s = session(2)
    s.run("import sys\nsetattr(sys.modules[__name__], 'mine', worker_id)")
    assert s.run("mine").values == [0, 1]
    s.run("delattr(sys.modules[__name__], 'mine')")
    assert "mine" not in s.names()
    with pytest.raises(CellError, match="mine"):
        s.run("del sys.modules[__name__].mine")


def test_type_hints_of_a_worker_s_class_can_be_asked_for_in_the_notebook(session):
    s = session(2)
    s.run(DECLARED)
    assert typing.get_type_hints(s["Plain"].get(0)) == {"other": s["Point"].get(0)}


def test_a_program_that_has_no_session_yet_is_told_what_it_lacks():
    code = "import pickle, disco_magic.callers.namespaces\npickle.loads(b'c__disco__\\nNet\\n.')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert re.search(r"'Net' .*what cells have defined: no session is running", done.stderr)


def test_what_a_copy_only_refers_to_keeps_its_class_on_the_worker(session):
    s = session(2)
    s.run(
        "class Unit:\n"
        "    known = {}\n"
        "    def __init__(self, n): self.n = n\n"
        "    def __deepcopy__(self, memo): return Unit.known.setdefault(self.n, self)\n"
        "m = Unit.known['m'] = Unit('m')\nmine = Unit('m')"
    )
    s["mine"].get(1)
    assert list(s.run("isinstance(m, Unit)").values) == [True, True]


def test_members_of_an_enum_in_an_array_of_objects_become_the_receivers(session):
    s = session(2)
    s.run("import enum\nclass Color(enum.Enum): R = 1\nx = np.array([Color.R], dtype=object)")
    s.put("y", s["x"].get(1))
    assert list(s.run("y[0] is Color.R").values) == [True, True]


# --- from __future__ -------------------------------------------------------------------------------------


def test_what_a_cell_imports_from_the_future_holds_for_those_after_it(session):
    s = session(2)
    s.run("from __future__ import annotations\nimport dataclasses")
    s.run("@dataclasses.dataclass\nclass A:\n    x: Undefined")
    assert s.run("A.__annotations__").values == [{"x": "Undefined"}] * 2
    with pytest.raises(CellError, match="Undefined"):
        session(1).run("class A:\n    x: Undefined\nA.__annotations__")
