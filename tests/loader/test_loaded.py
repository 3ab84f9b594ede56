"""Loaded parameters as a mapping and as a table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from disco_magic.errors import UnknownName
from disco_magic.loader.loaded import MOST_ROWS, Line, LoadedParameters
from disco_magic.loader.stored import Catalogue, StoredFile, StoredTensor

FILE = StoredFile("/f", 0, 0)


def loaded(shapes, axis=None, count=2):
    tensors = {name: StoredTensor(name, shape, np.dtype("f4"), FILE, 0) for name, shape in shapes.items()}
    lines = [Line.of(tensor, axis, count) for tensor in tensors.values()]
    return LoadedParameters(
        Catalogue("/m", tensors, {"by": "me"}), {name: f"#{name}" for name in tensors}, lines
    )


def test_it_is_a_mapping_from_names_to_registers():
    params = loaded({"a": (2,), "b": ()})
    assert isinstance(params, Mapping)
    assert dict(params) == {"a": "#a", "b": "#b"}
    assert (len(params), "a" in params, "c" in params, params.get("c")) == (2, True, False, None)
    assert (params.path, params.metadata) == ("/m", {"by": "me"})


@pytest.mark.parametrize(
    ("name", "words"),
    [("blok.weight", r"; did you mean 'block\.weight'\?"), ("xyz", "loaded from /m$"), (3, "no parameter 3")],
)
def test_an_unknown_name_is_an_error_with_near_misses(name, words):
    with pytest.raises(UnknownName, match=words):
        loaded({"block.weight": (2,)})[name]


def test_it_shows_itself_as_a_table():
    assert repr(loaded({"w": (4, 6), "scale": ()})).splitlines() == [
        "2 parameters, 100 B per worker",
        "parameter  dtype    shape  placement   per worker  bytes per worker",
        "w          float32  4\u00d76    replicated  4\u00d76         96 B",
        "scale      float32  0-d    replicated  0-d         4 B",
    ]
    assert "axis 1 in 2  4\u00d73         48 B" in repr(loaded({"w": (4, 6)}, axis=1))
    assert repr(loaded({})) == "0 parameters, 0 B per worker"


def test_the_html_escapes_names():
    html = loaded({"<b>": (1,)})._repr_html_()
    assert "<code>&lt;b&gt;</code>" in html
    assert html.count("<tr>") == 2


def test_of_many_parameters_the_middle_is_left_out():
    params = loaded({f"p{i}": (1,) for i in range(MOST_ROWS + 5)})
    lines = repr(params).splitlines()
    assert len(lines) == MOST_ROWS + 3
    assert [line.split()[0] for line in lines if line.startswith(("...", "p49", "p50", "p55"))] == [
        "p49",
        "...",
        "p55",
    ]
    assert "... 5 more ..." in params._repr_html_()
    assert len(repr(loaded({f"p{i}": (1,) for i in range(MOST_ROWS)})).splitlines()) == MOST_ROWS + 2
