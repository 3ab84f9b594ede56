"""Cells that seed a random state which all workers have in common."""

from __future__ import annotations

import sys

import pytest

from disco_magic.functions.cells import compile_cell

# Before 3.12 ast.unparse cannot write it.
ODD = "random.Random(seed)" if sys.version_info < (3, 12) else "random.Random(f'{names['a\\xa0b']}')"


@pytest.mark.parametrize(
    ("call", "own"),
    [
        ("np.random.seed(3)", "np.random.default_rng(3)"),
        ("numpy.random.seed(seed)", "np.random.default_rng(seed)"),
        ("random.seed(worker_id + 1)", "random.Random(worker_id + 1)"),
        ("random.seed()", "random.Random()"),
        ("np.random.seed(seed=3)", "np.random.default_rng(3)"),
        ("torch.manual_seed(" + "1 + " * 400 + "1)", "torch.Generator().manual_seed(seed)"),
        ("torch.manual_seed(0)", "torch.Generator().manual_seed(0)"),
        ("random.seed(version=2, a=3)", "random.Random(3)"),
        ("random.seed(**options)", "random.Random(seed)"),
        ("random.seed(f\"{names['a\u00a0b']}\")", ODD),
        ("torch.random.manual_seed(0)", "torch.Generator().manual_seed(0)"),
    ],
)
def test_a_seed_of_all_workers_is_found_with_its_line_and_what_to_do_instead(call, own):
    ((line, said),) = compile_cell(f"import random\ndef reset():\n    x = [1,\n      {call}]\nreset()").seeds
    assert line == 4
    assert said.startswith(f"{call.partition('(')[0]} sets the one state that all workers draw from, ")
    assert said.endswith(f"; give each its own: rng = {own}")


@pytest.mark.parametrize(
    ("call", "own"),
    [
        ("np.random.set_state(kept)", "rng.bit_generator.state = ..."),
        ("random.setstate(kept)", "rng.setstate(...)"),
        ("torch.set_rng_state(kept)", "rng.set_state(...)"),
        ("with torch.random.fork_rng(): pass", "rng.set_state(...)"),
    ],
)
def test_a_state_that_is_put_back_is_found_as_well(call, own):
    ((line, said),) = compile_cell(f"import random\n{call}").seeds
    assert line == 2
    assert said.endswith(f"; give each its own: a generator, and {own}")


@pytest.mark.parametrize(
    "source",
    [
        "from torch.utils.checkpoint import checkpoint",
        "from torch.utils import data, checkpoint",
        "import torch.utils.checkpoint as again",
        "def f():\n    import torch.utils.checkpoint",
    ],
)
def test_checkpoints_of_pytorch_put_back_the_state_of_all(source):
    ((_, said),) = compile_cell(source).seeds
    assert "pass preserve_rng_state=False" in said


@pytest.mark.parametrize(
    "source",
    [
        "import checkpoint\nfrom .utils import checkpoint\nfrom torch.utils import data\ncheckpoint.save(3)",
        "rng.set_state(1)\nx.random.setstate(2)",
        "rng = np.random.default_rng(seed)",
        "rng = random.Random(seed)",
        "torch.Generator().manual_seed(seed)",
        "self.random.seed(seed)",
        "seed(3)",
        "# np.random.seed(3)\n'np.random.seed(3)'",
        "f = np.random.seed",
        "random.seeds(3)[0].seed(3)",
        "random = random.Random(worker_id)\nrandom.seed(3)",
        "def shuffled(items, random):\n    random.seed(3)",
    ],
)
def test_what_seeds_something_of_one_worker_is_left_alone(source):
    assert compile_cell(source).seeds == ()


def test_all_of_a_cell_are_found():
    assert [line for line, _ in compile_cell("random.seed(1)\nx = 1\nnp.random.seed(1)").seeds] == [1, 3]


@pytest.mark.parametrize(
    "source", ["x = a" + ".b()" * 300, "x = (" + " + ".join(["'a'"] * 600) + ").strip()"]
)
def test_a_cell_with_a_long_expression_is_compiled_as_without_this(source):
    assert compile_cell(f"seed = 1\n{source}").seeds == ()
