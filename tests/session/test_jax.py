"""JAX itself, where it is installed, on workers that compute on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from disco_magic.errors import CellError


@pytest.fixture
def with_jax(session):
    """Three workers that have imported it."""
    pytest.importorskip("jax")
    started = session(3)
    started.run("import jax, jax.numpy as jnp")
    return started


def texts(session, name):
    return session.run(f"str({name})").values


def test_trees_of_jax_stay_trees_of_jax(with_jax):
    s = with_jax
    s.run("y = allreduce_tree({'w': jnp.ones((2, 3)), 'b': (jnp.arange(3), None, 1.5)})")
    s.run("kinds = [type(v).__module__.partition('.')[0] for v in (y['w'], y['b'][0], y['b'][2])]")
    assert (
        s.run("kinds, y['w'].sum().item(), y['b'][0].tolist(), float(y['b'][2])").values
        == [(["jaxlib", "jaxlib", "numpy"], 18.0, [0, 3, 6], 4.5)] * 3
    )
    with pytest.raises(CellError, match=r"out\['a'\]: nothing can be written to out, an array of JAX"):
        s.run("x = {'a': jnp.ones(2)}\nallreduce_tree(x, out=x)")
    with pytest.raises(CellError, match="UsageMistake: allreduce_tree was called in code that JAX traces"):
        s.run("jax.jit(lambda x: allreduce_tree({'a': x}))(jnp.ones(2))")


def test_what_a_session_sends_stays_an_array_of_jax(with_jax):
    import jax
    import jax.numpy as jnp

    s, given = with_jax, jnp.arange(6).reshape(3, 2).astype("bfloat16")
    for held in (s.broadcast(given).get_all(), s.scatter(given).get_all(), s.scatter(list(given)).get_all()):
        assert all(isinstance(each, jax.Array) and each.dtype == given.dtype for each in held)
    assert s.scatter(given).get(2).tolist() == [4, 5]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool", "complex64"])
def test_dtypes_and_shapes_of_jax_stay(with_jax, dtype):
    s = with_jax
    s.run(f"t = jnp.arange(6).reshape(2, 3).astype('{dtype}').T")
    for call in ("allreduce(t)", "broadcast(t if worker_id == 0 else None)", "alltoall(t)", "allgather(t)"):
        s.run(f"y = {call}\nsame = isinstance(y, jax.Array), y.dtype == t.dtype, y.devices() == t.devices()")
        assert s["same"].get_all() == [(True, True, True)] * 3
    s.run("y = jax.jit(lambda a: a + 1)(allreduce(t))")


def test_messages_of_jax(with_jax):
    s = with_jax
    s.run(
        """
send(jnp.full(2, worker_id), (worker_id + 1) % 3)
y = recv((worker_id - 1) % 3)
kind = isinstance(y, jax.Array)
"""
    )
    assert s["kind"].get_all() == [True] * 3
    assert texts(s, "y") == ["[2 2]", "[0 0]", "[1 1]"]


def test_arrays_of_jax_are_compared_and_described(with_jax):
    s = with_jax
    s.run(
        "w = worker.replicated(jnp.ones(9, 'bfloat16'))\n"
        "v = worker.replicated(dict(b=jnp.full(9, worker_id == 2)))"
    )
    report = s.check(values=True)
    assert [part.name for part in report.differing] == ["v['b']"]
    assert report.differing[0].gap.startswith("9 of 9 elements differ")
    assert [cell.mean for cell in s.registers().row("w").cells] == [1.0] * 3


def test_traced_code_is_told_that_collectives_stay_outside(with_jax):
    with pytest.raises(Exception, match="allreduce was called in code that JAX traces") as caught:
        with_jax.run("jax.jit(lambda x: allreduce(x))(jnp.ones(2))")
    assert "TracerArrayConversionError" not in str(caught.value)


@pytest.mark.parametrize(
    "how", ["x.delete()", "step = jax.jit(lambda a: a + 1, donate_argnums=0)\nnew = step(x)"]
)
def test_an_array_that_jax_has_given_away_is_no_end_of_a_table(with_jax, how):
    s = with_jax
    s.run(f"x = jnp.ones(3)\nw = jnp.ones(2)\n{how}")
    assert s.run("x.is_deleted()").values == [True] * 3, "nothing would be tested"
    rows = s.registers()
    assert [cell.mean for cell in rows.row("w").cells] == [1.0] * 3
    assert [cell.mean for cell in rows.row("x").cells] == [None] * 3


SPREAD = """
import jax, jax.numpy as jnp
import disco_magic as disco
with disco.ThreadedSession(4) as s:
    s.run("import jax, jax.numpy as jnp")
    s.run("x = jax.device_put(jnp.ones(3), jax.devices()[worker_id])")
    for call in ("allreduce(x)", "broadcast(x)", "allgather(x)"):
        s.run(f"y = {call}")
        print(s.run("y.devices() == x.devices()").values)
    print(s.run("x = jnp.ones(3)\\nallreduce(x).committed").values)
"""


def test_each_worker_s_array_of_jax_stays_on_its_device():
    pytest.importorskip("jax")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", SPREAD],
        env={**os.environ, **flags},
        capture_output=True,
        text=True,
        check=False,
    )
    said = f"{[True] * 4}\n" * 3 + f"{[False] * 4}\n"
    assert done.stdout == said, done.stderr


def test_random_keys_of_jax_are_compared(with_jax):
    s = with_jax
    s.run("keys = {'a': jax.random.key(0), 'b': jax.random.split(jax.random.key(1), 2)}; worker.check(keys)")
    s.run("keys['b'] = jax.random.split(jax.random.key(1 + worker_id // 2), 2)")
    report = s.check("keys", values=True)
    assert ([row.name for row in report.differing], report.uncompared) == (["keys['b'].key_data"], ())
