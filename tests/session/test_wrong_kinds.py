"""What is of a kind that a method cannot take is refused in words of that method, before anything happens."""

from __future__ import annotations

import pathlib
import re

import pytest

from disco_magic.errors import UsageMistake
from disco_magic.functions.execution.scripts import compile_file
from disco_magic.functions.modules import locate
from disco_magic.functions.paths import path_text
from disco_magic.loader.safetensors import open_safetensors
from disco_magic.loader.tensor_cache import open_tensor_cache


class Written:
    """Like a path, of what it was given."""

    def __init__(self, text):
        self.text = text

    def __fspath__(self):
        return self.text


@pytest.mark.parametrize("path", ["a/b", pathlib.Path("a/b"), Written("a/b")])
def test_a_path_is_text_or_says_its_text(path):
    assert path_text("a file is run", path) == "a/b"


@pytest.mark.parametrize(
    ("path", "told"),
    [(3, "3"), (b"a/b", "b'a/b'"), (Written(b"a/b"), "<tests.sess.*>"), (None, "None")],
)
def test_what_is_no_path_is_refused(path, told):
    with pytest.raises(UsageMistake, match=f"^a file is run by its path, got {told}$"):
        path_text("a file is run", path)


@pytest.mark.parametrize("load", [open_safetensors, open_tensor_cache, locate, compile_file])
def test_of_a_file_s_content_in_the_place_of_its_path_the_beginning_is_told(load):
    with pytest.raises(UsageMistake) as caught:
        load(bytes(1 << 20))
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.run_file(b"x.py"), "a file is run by its path, got b'x.py'"),
        (lambda s: s.run_module(3), "3 is not the name of a module: write package.module"),
        (lambda s: s.load_safetensors(3), "a file of parameters is loaded by its path, got 3"),
        (lambda s: s.load_tensor_cache(b"x"), "a file of parameters is loaded by its path, got b'x'"),
        (lambda s: s.load_vm_module(3), "a module is loaded by its path, got 3"),
        (lambda s: s.timeline("x"), "the last x seconds are empty; expected a number above 0"),
        (lambda s: s.look_at(s.call_packed(int)), "look_at takes the name of a register, or of a part, got"),
        (lambda s: s.look_into(3), "look_into takes the name of a register, or of a part, got int"),
        (
            lambda s: s.look_at("x[2]"),
            "has no part '[2]' on any worker; numbers and slices select parts of its shape, (2, 3)",
        ),
    ],
)
def test_a_method_says_what_it_takes(session, call, said):
    s = session(1)
    s.run("x = np.ones((2, 3))")
    with pytest.raises(UsageMistake, match=re.escape(said)):
        call(s)
    assert s.run("1").values == [1]
