"""Names of modules that workers import for themselves."""

from __future__ import annotations

import pytest

from disco_magic.core.module_names import module_names
from disco_magic.errors import UsageMistake


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ((), ()),
        ("", ()),
        ("megatron", ("megatron",)),
        ("megatron, utils,megatron", ("megatron", "utils")),
        (["utils", "."], ("utils", ".")),
        (iter(["a", "b"]), ("a", "b")),
    ],
)
def test_names_are_taken_one_by_one_or_with_commas(given, names):
    assert module_names(given) == names


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("megatron.core", "'megatron.core'; expected names of packages or modules without dots, or '.'"),
        ([3], "own_modules has 3; expected"),
        (3, "own_modules is 3, expected names"),
        ("os", "'os', of which a process can have only one"),
        (["torch"], "'torch', of which a process can have only one"),
    ],
)
def test_what_is_no_name_or_can_be_there_only_once_is_refused(given, said):
    with pytest.raises(UsageMistake, match="own_modules") as caught:
        module_names(given)
    assert said in str(caught.value)
