"""Exact values with their indices."""

from __future__ import annotations

import numpy as np

from disco_magic.notebook.pictures.blocks import block_html
from disco_magic.values.peek import Block, Window, block_of

DOTS = "…"


def rows(page):
    return [["".join(cell.itertext()) for cell in row] for row in page.all("tr")]


def test_all_of_a_small_array_is_shown_without_dots(parse):
    page = parse(block_html(block_of(np.array([[1, 2], [3, 4]]), Window())))
    assert rows(page) == [["", "0", "1"], ["0", "1", "2"], ["1", "3", "4"]]
    assert page.texts("caption") == ["2\u00d72"]


def test_labels_of_a_table_stand_for_the_indices(parse):
    block = Block((("1", "2"),), range(3, 4), range(2), (9, 2), (9, 2), ("<p>",), ("id", "x"))
    assert rows(parse(block_html(block)))[:3] == [["", "id", "x"], [DOTS] * 3, ["<p>", "1", "2"]]


def test_dots_stand_where_the_array_goes_on(parse):
    array = np.arange(100).reshape(10, 10)
    page = parse(block_html(block_of(array, Window((2, 9), (3, 8)), (2, 2)), title="w"))
    assert rows(page) == [
        ["", DOTS, "3", "4", DOTS],
        [DOTS] * 5,
        ["2", DOTS, "23", "24", DOTS],
        ["3", DOTS, "33", "34", DOTS],
        [DOTS] * 5,
    ]
    assert page.texts("caption") == ["w: rows 2 to 3, columns 3 to 4 of 10\u00d710"]


def test_only_the_edges_behind_which_there_is_more_have_dots(parse):
    page = parse(block_html(block_of(np.arange(100).reshape(10, 10), Window(columns=(8, 10)), (20, 2))))
    assert rows(page)[0] == ["", DOTS, "8", "9"]
    assert len(rows(page)) == 11


def test_texts_are_escaped(parse):
    page = parse(block_html(block_of(np.array(["<b>", "&"]), Window()), title="<w>"))
    assert rows(page)[1] == ["0", "'<b>'", "'&'"]
    assert page.texts("caption") == ["<w>: 2"]


def test_heads_belong_to_their_rows_and_columns(parse):
    page = parse(block_html(block_of(np.zeros((2, 2)), Window())))
    assert [head.get("scope") for head in page.all("th")] == [None, "col", "col", "row", "row"]


def test_an_array_without_elements_says_so(parse):
    page = parse(block_html(Block((), range(0), range(5), (0, 5), (0, 5))))
    assert rows(page)[1:] == [["no elements"]]
    assert page.texts("caption") == ["0\u00d75"]


def test_a_block_without_rows_of_a_larger_array_is_named_as_such(parse):
    page = parse(block_html(Block((), range(0), range(2), (4, 2), (4, 2))))
    assert page.texts("caption") == ["rows none of 4\u00d72"]


def test_the_caption_of_a_single_element_is_not_as_narrow_as_the_table():
    # "zero_d on [0]: 0-d" took three lines above a table of one digit.
    html = block_html(block_of(np.array(5), Window()))
    assert ".disco-block caption{width:max-content;max-width:24em}" in html
