"""What a worker's reset of PyTorch's compiler drops, on a stand-in for the compiler."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from disco_magic.isolation.pytorch import compiler as resets


@pytest.fixture
def compiler():
    """A stand-in for ``torch._dynamo`` that notes what is called."""
    calls = []
    made = SimpleNamespace(
        calls=calls,
        convert_frame=SimpleNamespace(compile_lock=threading.RLock()),
        reset=lambda: calls.append("all"),
        reset_code_caches=lambda: calls.append("all codes"),
        reset_code=lambda code: calls.append(code.co_name),
        reset_code_state=lambda: calls.append("state"),
    )
    undo = resets.fit_resets(made)
    yield made
    undo()


NOTED = (
    "from disco_magic.isolation.pytorch import compiler as resets\n"
    "def mine(): pass\n"
    "resets.note_compiled(mine.__code__, globals())\n"
    "resets.note_compiled(threading.Thread.run.__code__, vars(threading))"
)


@pytest.fixture
def s(session, compiler):
    made = session(2)
    made.run(f"import threading\n{NOTED}")
    made["compiler"] = made.call_packed(lambda: compiler)
    return made


@pytest.mark.parametrize("call", ["reset", "reset_code_caches"])
def test_of_several_workers_each_drops_its_own_code(s, compiler, call):
    # A reset dropped what another worker's call was about to add to, and the process ended.
    s.run(f"compiler.{call}()", workers=[0])
    assert compiler.calls == ["mine", "state"]
    s.run(f"compiler.{call}()", workers=[0])
    assert compiler.calls == ["mine", "state", "state"]
    s.run(f"compiler.{call}()", workers=[1])
    assert compiler.calls == ["mine", "state", "state", "mine", "state"]


def test_limits_count_anew_after_a_reset_of_the_caller(s):
    s.run("compiler.reset()", workers=[1])
    assert s.run("resets.resets_of_caller()").values == [0, 1]
    assert resets.resets_of_caller() == 0


def test_code_that_is_gone_is_passed_over(s, compiler):
    s.run("del mine\nimport gc; gc.collect()\ncompiler.reset()", workers=[0])
    assert compiler.calls == ["state"]


@pytest.mark.parametrize(("call", "told"), [("reset", "all"), ("reset_code_caches", "all codes")])
def test_the_notebook_and_a_worker_that_is_alone_drop_everything(session, compiler, call, told):
    getattr(compiler, call)()
    one = session(1)
    one["compiler"] = one.call_packed(lambda: compiler)
    one.run(f"compiler.{call}()")
    assert compiler.calls == [told, told]
    resets.note_compiled(threading.Thread.run.__code__, {})  # of no worker
