"""`loss_parallel` on workers, on a stand-in for what PyTorch does at its begin and end."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError
from tests.isolation.pytorch.torch_module import install

NAME = "torch.distributed.tensor.parallel.loss"


@pytest.fixture
def loss(monkeypatch):
    handlers = {}
    return install(
        monkeypatch,
        NAME,
        handlers=handlers,
        _enable_custom_loss_ops=lambda: handlers.update(loss=1),
        _disable_custom_loss_ops=lambda: handlers.pop("loss"),
    )


def test_the_handlers_are_there_until_the_last_worker_has_left(session, loss):
    s = session(3, extras=lambda _: {"loss": loss})
    s.run("loss._enable_custom_loss_ops()")
    for worker in range(3):
        assert s.run("'loss' in loss.handlers", workers=[worker])[worker] is True
        s.run("loss._disable_custom_loss_ops()", workers=[worker])
    assert loss.handlers == {}


def test_who_has_left_it_by_an_exception_leaves_it_the_next_time(session, loss):
    s = session(2, extras=lambda _: {"loss": loss})
    s.run("loss._enable_custom_loss_ops()", workers=[0])
    s.run("loss._enable_custom_loss_ops()\nbarrier()\nloss._disable_custom_loss_ops()")
    assert loss.handlers == {}


def test_who_leaves_it_by_an_error_of_its_cell_is_out(session, loss):
    s = session(2, extras=lambda _: {"loss": loss})
    with pytest.raises(CellError):
        s.run("loss._enable_custom_loss_ops()\n1 / 0", workers=[0])
    assert loss.handlers == {}


def test_who_has_ended_is_in_it_no_more(session, loss):
    s, other = (session(2, extras=lambda _: {"loss": loss}) for _ in range(2))
    s.run("loss._enable_custom_loss_ops()", workers=[0])
    other.run("loss._enable_custom_loss_ops()", workers=[1])
    s.restart()
    assert loss.handlers
    other.shutdown()
    assert loss.handlers == {}


def test_the_notebook_that_leaves_it_after_a_session_is_not_in_it_in_the_next_one(session, loss):
    s = session(1)
    loss._enable_custom_loss_ops()
    s.shutdown()
    loss._disable_custom_loss_ops()
    session(2, extras=lambda _: {"loss": loss}).run("loss._enable_custom_loss_ops()")
    assert loss.handlers == {"loss": 1}


def test_all_is_as_before_when_the_session_has_ended(session, loss):
    before = dict(vars(loss))
    session(1).shutdown()
    assert dict(vars(loss)) == before
