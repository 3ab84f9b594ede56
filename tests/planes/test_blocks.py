from __future__ import annotations

import numpy as np
import pytest

from disco_magic.planes.blocks import Fold, fold, indices


@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (17,), (4, 0), (3, 5), (1, 1, 40), (40, 1, 1), (2, 3, 7), (5, 64)]
)
@pytest.mark.parametrize("items", [1, 2, 7, 16, 1000])
def test_every_element_is_in_exactly_one_block_and_no_block_is_too_long(shape, items):
    seen = np.zeros(shape, int)
    for index in indices(shape, items):
        view = seen[index or ...]
        assert view.size <= items
        view += 1
    assert (seen == 1).all()


def test_contiguous_arrays_are_moved_as_flat_runs():
    arrays = [np.zeros((4, 6)), np.zeros((4, 6))]
    assert [a.shape for a in fold(arrays, arrays).sources] == [(24,), (24,)]


def test_arrays_with_gaps_keep_their_shape():
    assert fold([np.zeros((4, 6))], [np.zeros((4, 12))[:, ::2]]).targets[0].shape == (4, 6)


def test_a_fold_counts_what_it_reads_and_writes():
    x = np.zeros(10, "f4")
    assert Fold([x, x], [x, x, x]).nbytes == 200


def test_pieces_are_views_of_the_same_memory():
    x, y = np.arange(100.0), np.zeros(100)
    for piece in fold([x], [y]).cut(80):
        np.copyto(piece.targets[0], piece.sources[0])
        assert piece.sources[0].nbytes <= 80
    assert (x == y).all()
