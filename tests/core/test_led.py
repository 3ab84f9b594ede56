"""Which asyncio task makes a call, in words that are alike on all workers."""

from __future__ import annotations

import pytest

from disco_magic.core.recorded import tasks_in_words


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
    assert tasks_in_words(names) == said
