"""Python files and packages as modules: their functions, their names, their edits."""

from __future__ import annotations

import copy
import os
import pickle
import sys

import pytest

from disco_magic.errors import UnknownName
from disco_magic.functions.modules import load
from tests.functions.modules.conftest import MODEL


def test_functions_classes_and_other_callables_of_a_file_are_found(write):
    module = load(write("model.py", MODEL))
    assert module.get_function("mlp")(3) == 12
    assert module.get_function("Layer")(2).size == 2
    assert module.get_function("double")() == 8
    assert module.get_function("_helper")() == "private"
    assert module.get_function("join")("a", "b") == os.path.join("a", "b")


def test_listed_are_the_public_ones_defined_there(write):
    assert load(write("model.py", MODEL)).function_names() == ["Layer", "double", "mlp"]


def test_listed_is_what_the_module_says_itself(write):
    module = load(write("model.py", "__all__ = ['join', 'X', 'gone']\nfrom os.path import join\nX = 1"))
    assert module.function_names() == ["join"]


def test_imported_functions_are_left_out_on_request(write):
    module = load(write("model.py", MODEL))
    assert module.get_function("mlp", imports=False)(1) == 4
    with pytest.raises(UnknownName):
        module.get_function("join", imports=False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mpl", r"there is no function 'mpl' in '.*model\.py'; did you mean 'mlp'\?"),
        ("zzz", r"there is no function 'zzz' in '.*model\.py'; there are: Layer, double, mlp"),
        ("SIZE", r"'SIZE' in '.*model\.py' is int, which cannot be called"),
    ],
)
def test_an_unknown_function_is_told_with_what_there_is(write, name, text):
    with pytest.raises(UnknownName, match=text):
        load(write("model.py", MODEL)).get_function(name)


def test_of_many_functions_some_are_told(write):
    source = "\n".join(f"def f{number:02}(): pass" for number in range(30))
    with pytest.raises(UnknownName, match=r"there are: f00, f01, .*, f09, and 20 more$"):
        load(write("model.py", source)).get_function("zzz")


def test_a_module_without_functions_says_so(write):
    with pytest.raises(UnknownName, match="there are none"):
        load(write("model.py")).get_function("f")


def test_a_file_does_not_take_its_name_among_the_imported_modules(write):
    load(write("quite_a_model.py", "VALUE = 1"))
    assert "quite_a_model" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        __import__("quite_a_model")


def test_two_files_of_one_name_do_not_meet(write):
    first, second = load(write("a/model.py", MODEL)), load(write("b/model.py", MODEL))
    assert first.get_function("Layer") is not second.get_function("Layer")


def test_objects_of_its_classes_can_be_pickled(write):
    layer = load(write("my model-2.py", MODEL)).get_function("Layer")(3)
    assert pickle.loads(pickle.dumps(layer)) == layer  # noqa: S301 - our own


def test_parts_of_a_package_import_each_other_now_and_later(write, tmp_path):
    write("pkg/__init__.py", "from .part import f\ndef g():\n    from .later import h\n    return h()")
    write("pkg/part.py", "from . import constants\ndef f(): return constants.X")
    write("pkg/constants.py", "X = 7")
    write("pkg/later.py", "def h(): return 'late'")
    module = load(tmp_path / "pkg")
    assert (module.get_function("f")(), module.get_function("g")()) == (7, "late")
    assert module.function_names() == ["f", "g"]
    assert not {"pkg", "pkg.part"} & set(sys.modules)
    assert load(tmp_path / "pkg" / "__init__.py") is module


def test_an_error_of_the_module_is_the_users_own_with_its_line(write):
    path = write("model.py", "x = 1\ny = x / 0")
    before = set(sys.modules)  # other tests may have left theirs
    with pytest.raises(ZeroDivisionError) as caught:
        load(path)
    entry = caught.traceback[-1]
    assert (entry.path, entry.lineno + 1) == (path, 2)
    assert not [name for name in set(sys.modules) - before if name.startswith("_disco_")]
    write("model.py", "def f(): return 'mended'")
    assert load(path).get_function("f")() == "mended"


def test_an_edit_that_fails_leaves_the_former_version_importable(write, tmp_path):
    write("pkg/__init__.py", "def f():\n    from . import part\n    return part.X")
    write("pkg/part.py", "X = 1")
    former = load(tmp_path / "pkg")
    write("pkg/__init__.py", "from . import part\nraise ValueError('edited')")
    with pytest.raises(ValueError, match="edited"):
        load(tmp_path / "pkg")
    assert former.get_function("f")() == 1


def test_a_module_is_a_handle(write):
    path = write("model.py")
    module = load(path)
    assert copy.deepcopy(module) is module
    assert module.on("cpu") is module
    assert repr(module) == f"<module '{path}'>"
