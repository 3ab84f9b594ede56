"""Which asyncio task makes a call, in words that are alike on all workers."""

from __future__ import annotations

import pytest

from disco_magic.core.partings import lines_of, tasks_in_words
from disco_magic.core.timeline import Span

ALL = (0, 1, 2)
OWN = "asyncio task {} of those with names of their own"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], {}),
        ([""], {}),
        (["Task-7", "Task-7"], {}),
        (["Task-12", "Task-9"], {"Task-9": "asyncio task 1", "Task-12": "asyncio task 2"}),
        (["Task-12", ""], {"Task-12": "asyncio task 1"}),
        (["load", "Task-3"], {"load": "asyncio task 'load'", "Task-3": "asyncio task 1"}),
    ],
)
def test_tasks_are_numbered_in_the_order_in_which_they_were_made_unless_they_have_names(names, said):
    assert tasks_in_words({0: names}).get(0, {}) == said


def test_names_that_only_some_workers_have_are_numbered_in_the_order_of_their_calls():
    said = tasks_in_words({0: ["load-0", "all", "save-0"], 1: ["load-1", "all", "save-1"]})
    assert said == {
        worker: {
            f"load-{worker}": OWN.format(1),
            "all": "asyncio task 'all'",
            f"save-{worker}": OWN.format(2),
        }
        for worker in (0, 1)
    }


def met(members, *calls, verb="allreduce"):
    """Calls of these members from one line; of each call, the task that made it on each of them."""
    return [
        Span(each, "collective", f"{verb}()", n, n, "line 9", meeting=(members, 7, n), task=task)
        for n, tasks in enumerate(calls, 1)
        for each, task in zip(members, tasks, strict=False)
    ]


@pytest.mark.parametrize(
    "spans",
    [
        # Each worker has tasks for the groups that it is in: worker 1 two, the others one.
        [*met((0, 1), ["Task-1", "Task-2"]), *met((1, 2), ["Task-4", "Task-3"])],
        # Of worker 0, which has made more calls with others, an earlier task is no longer known.
        [
            Span(1, "collective", "allreduce()", 0, 0, "line 9", meeting=(ALL, 7, 0), task="Task-1"),
            *met(ALL, ["Task-9", "Task-2", "Task-3"], ["Task-12", "Task-5", "Task-6"]),
        ],
        # A root sends from a task of its own, beside those of all.
        [
            *met(ALL, ["Task-4", "Task-2", "Task-3"], verb="broadcast"),
            *met(ALL, [], ["Task-1", "Task-2", "Task-3"], ["Task-7", "Task-8", "Task-9"]),
        ],
        met(ALL, ["load-0", "load-1", "load-2"], ["Task-7", "Task-8", "Task-9"]),
    ],
    ids=["groups", "dropped", "a root", "names"],
)
def test_tasks_of_which_only_some_workers_have_more_are_no_other_order(spans):
    assert lines_of(spans, 7).apart == ()


def test_tasks_of_one_line_that_call_in_another_order_are_told():
    apart = lines_of(met(ALL, ["Task-1", "Task-2", "Task-6"], ["Task-4", "Task-5", "Task-3"]), 7).apart
    assert [each.partition("called by ")[2] for each in apart] == [
        "workers [0-1] from asyncio task 1, worker 2 from asyncio task 2",
        "workers [0-1] from asyncio task 2, worker 2 from asyncio task 1",
    ]
