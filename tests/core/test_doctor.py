"""What a picture of all workers means, as a function of the picture."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from disco_magic.core.doctor import HEADER, Diagnosis, Position, held_by_imports


def idle(worker):
    return Position(worker, "idle")


def waiting(worker, *needs, seconds=1.5, call="barrier()"):
    return Position(worker, "waiting", "Cell In[7]", "Cell In[7], line 6", call, needs, seconds, behind=1)


def busy(worker, command="Cell In[7]", site="Cell In[7], line 4", **more):
    return Position(worker, "executing", command, site, **{"seconds": 12.0, "behind": 1, **more})


def sentence(*positions):
    return Diagnosis(1, positions).sentence


@pytest.mark.parametrize(
    ("given_up", "text"),
    [
        (1, "1 thread that was given up has not ended: if it runs on, it takes time from the others and"),
        (
            2,
            "2 threads that were given up have not ended: if they run on, they take time from the others and",
        ),
    ],
)
def test_threads_that_were_given_up_are_named_as_long_as_they_go_on(given_up, text):
    said = Diagnosis(1, (idle(0),), given_up).sentence
    assert said == f"all workers are idle; {text} may change registers until the process ends"


def test_in_a_notebook_s_kernel_they_end_with_that(monkeypatch):
    app = SimpleNamespace(IPKernelApp=SimpleNamespace(initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", app)
    assert Diagnosis(1, (idle(0),), 1).sentence.endswith("until the kernel is restarted")


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (idle(0), "idle"),
        (Position(0, "queued", behind=3), "about to execute what was sent"),
        (busy(0), "executing Cell In[7] at Cell In[7], line 4 for 12.00 s"),
        (busy(0, "call f", "", at_most=True), "executing call f for <= 12.00 s"),
        (busy(0, "call f", "", seconds=None), "executing call f"),
        (Position(0, "stopping", "call f"), "being stopped in call f"),
        (waiting(0, 1, 2), "waiting in barrier() for workers [1-2] at Cell In[7], line 6 for 1.50 s"),
        (Position(0, "moving", call="allreduce(x)"), "moving data in allreduce(x)"),
        (Position(0, "asking", "Cell 1", call="input('? ')"), "waiting for your answer to input('? ')"),
    ],
)
def test_a_position_says_what_a_worker_does_where_and_for_how_long(position, text):
    assert str(position) == text


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ((idle(0), idle(1)), "all workers are idle"),
        ((idle(0), busy(1)), "worker 1 is executing Cell In[7], the others are idle"),
        ((busy(0), busy(1)), "workers [0-1] are executing Cell In[7]"),
        ((busy(0), busy(1, "call f")), "worker 0 is executing Cell In[7], worker 1 is executing call f"),
        (
            (waiting(0, 2), waiting(1, 2), busy(2)),
            (
                "worker 2 keeps workers [0-1] waiting: "
                "executing Cell In[7], now at Cell In[7], line 4, for 12.00 s"
            ),
        ),
        (
            (waiting(0, 1, 2), Position(1, "queued"), Position(2, "queued")),
            "workers [1-2] keep worker 0 waiting: about to execute what was sent",
        ),
        (
            (waiting(0, 1, 2), Position(1, "stopping", "call f"), busy(2, "call g", "")),
            (
                "worker 1 keeps worker 0 waiting: being stopped in call f; "
                "worker 2 keeps worker 0 waiting: executing call g, for 12.00 s"
            ),
        ),
    ],
)
def test_the_sentence_says_who_keeps_whom_waiting(positions, text):
    assert sentence(*positions) == text


def test_whoever_is_at_the_end_of_a_chain_keeps_all_waiting():
    chain = Diagnosis(1, (waiting(0, 1), waiting(1, 2), busy(2), idle(3)))
    assert chain.blocking() == (2,)
    assert chain.sentence.startswith("worker 2 keeps workers [0-1] waiting: executing Cell In[7]")


def test_everybody_keeps_those_waiting_who_wait_for_them():
    apart = (waiting(0, 1), busy(1), waiting(2, 3), busy(3, site="Cell In[7], line 9"))
    assert sentence(*apart) == (
        "worker 1 keeps worker 0 waiting: executing Cell In[7], now at Cell In[7], line 4, for 12.00 s; "
        "worker 3 keeps worker 2 waiting: executing Cell In[7], now at Cell In[7], line 9, for 12.00 s"
    )


def test_a_receive_says_once_whom_it_waits_for():
    assert waiting(0, 2, call="recv from worker 2").doing == "waiting in recv from worker 2"


def test_workers_that_wait_for_each_other_are_named():
    assert sentence(waiting(0, 1), waiting(1, 0)) == "workers [0-1] wait for each other"


def test_workers_that_do_the_same_at_the_same_line_share_a_row_with_the_longest_time():
    picture = Diagnosis(5, (waiting(0, 2), waiting(1, 2, seconds=3.0), busy(2, behind=4)))
    assert picture.rows() == [
        ("[0-1]", "waiting in barrier() for worker 2", "Cell In[7], line 6", "3.00 s", "1"),
        ("[2]", "executing Cell In[7]", "Cell In[7], line 4", "12.00 s", "4"),
    ]
    assert picture.header == HEADER
    assert str(picture).splitlines()[1].split() == ["worker", "doing", "where", "for", "commands", "left"]
    assert repr(picture) == f"Disco session 5: {picture}"


def test_how_many_commands_are_left_is_told_where_more_are_than_what_is_waited_for():
    picture = Diagnosis(5, (busy(0, behind=2), idle(1)))
    assert picture.header == HEADER[:-1]
    assert [len(row) for row in picture.rows()] == [4, 4]


def test_a_row_says_from_where_to_where_its_workers_are_behind():
    assert Diagnosis(1, (busy(0, behind=1200), busy(1, behind=3))).rows()[0][-1] == "3-1,200"


def test_the_columns_of_the_table_stand_under_each_other():
    header, *rows = Diagnosis(1, (idle(0), busy(1, behind=12_345))).table().splitlines()
    assert header.index("where") == rows[1].index("Cell In[7], line 4")
    assert all(row.endswith(("0", "12,345")) for row in rows)
    assert len({len(row) for row in (header, *rows)}) == 1


# --- imports that a worker keeps others waiting with -----------------------------------------------


def importing(worker, *needs):
    return waiting(worker, *needs, call="the import of comm")


def test_who_needs_workers_that_wait_for_its_import_is_held_up_by_it():
    said = held_by_imports([waiting(0, 1, 2), importing(1, 0), importing(2, 0)], 0)
    assert said.startswith(
        "workers [1-2] are waiting in the import of comm for worker 0 at Cell In[7], line 6: a"
    )
    assert said.endswith("put that into a function, or start the session with --own-modules")
    assert "worker 2 is waiting in the import" in held_by_imports(
        [waiting(0, 1), waiting(1, 2), importing(2, 0)], 0
    )


def test_who_may_still_go_on_is_held_up_by_nothing():
    assert held_by_imports([waiting(0, 1, 2), importing(1, 0), busy(2)], 0) == ""
    assert held_by_imports([waiting(0, 1), importing(1, 2), busy(2)], 0) == ""
    assert held_by_imports([busy(0), importing(1, 0)], 0) == ""


def test_workers_that_wait_without_an_import_are_the_plane_s_to_find():
    assert held_by_imports([waiting(0, 1), waiting(1, 0)], 0) == ""
    assert held_by_imports([waiting(0, 1), waiting(1, 2), importing(2, 1)], 0) == ""


def test_workers_of_a_shared_module_that_wait_for_each_other_are_told_of_it():
    told = sentence(waiting(0, 1), importing(1, 0))
    assert told.startswith(
        "workers [0-1] wait for each other: a module that they share makes a collective while"
    )


def test_a_worker_that_looks_for_any_message_names_the_others_once():
    told = sentence(waiting(0, 1, 2, call="probe of workers [1-2]"), busy(1), busy(2))
    assert told.startswith("workers [1-2] keep worker 0 waiting")
    place = waiting(0, 1, 2, call="probe of workers [1-2]")
    assert place.doing == "waiting in probe of workers [1-2]"


def test_a_load_holds_workers_up_like_an_import_and_is_always_shared():
    loading = waiting(1, 0, call="the load of /there/comm.py")
    assert held_by_imports([waiting(0, 1), loading], 0).endswith("wait for it - put that into a function")
    assert sentence(waiting(0, 1), loading).endswith("while it is loaded - put that into a function")


class Counted(tuple):
    """Whom a worker needs; notes how often that is looked through."""

    __slots__ = ()
    looks = 0

    def __iter__(self):
        Counted.looks += 1
        return super().__iter__()


@pytest.mark.parametrize("n", [4, 64])
def test_a_chain_is_followed_worker_by_worker(monkeypatch, n):
    """Looking through all for each link took time in the square of how many there are."""
    monkeypatch.setattr(Counted, "looks", 0)
    chain = [replace(waiting(worker), needs=Counted((worker - 1,))) for worker in range(1, n)]
    said = sentence(busy(0), *chain)
    assert said.startswith(f"worker 0 keeps workers [1-{n - 1}] waiting")
    assert Counted.looks <= 2 * n


@pytest.mark.parametrize("n", [8, 64])
def test_those_in_one_wait_are_looked_at_and_put_into_words_once(monkeypatch, n):
    monkeypatch.setattr(Counted, "looks", 0)
    words, made = [], Position.doing.fget
    monkeypatch.setattr(Position, "doing", property(lambda self: words.append(1) or made(self)))
    needs = Counted(range(1, n, 2))
    half = [busy(w) if w % 2 else replace(waiting(w), needs=needs) for w in range(n)]
    found = Diagnosis(1, tuple(half))
    assert found.sentence.startswith("workers [1,3,5" if n == 8 else "workers [1-63:2] keep workers [0-62:2]")
    assert len(found.rows()) == 2
    assert Counted.looks + len(words) <= 20
