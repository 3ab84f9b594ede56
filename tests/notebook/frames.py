"""As much of pandas as is asked of it here, for environments without it; copies as pandas copies.

That is: a copy, deep or not, has cells of its own that hold the same objects.
"""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest


class Series:
    """A column."""

    ndim = 1
    axes = ()

    def __init__(self, values):
        self.values = np.array([*values, None], dtype=object)[:-1]  # [[1], [2]] are two objects

    @property
    def dtype(self):
        return self.values.dtype if any(isinstance(x, list) for x in self.values) else np.dtype("int64")

    @property
    def iloc(self):
        return Rows(lambda at: Series(self.values[at]) if isinstance(at, slice) else self.values[at])

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __deepcopy__(self, memo):
        return Series(self.values)

    def __setstate__(self, state):
        vars(self).update(state)

    def equals(self, other):
        return list(self) == list(other)


class DataFrame:
    """Columns by name."""

    ndim = 2
    axes = ()

    def __init__(self, columns):
        self.data = {name: Series(values).values for name, values in columns.items()}

    @property
    def columns(self):
        return list(self.data)

    @property
    def shape(self):
        return len(self), len(self.data)

    @property
    def dtypes(self):
        return [self[name].dtype for name in self.data]

    @property
    def iloc(self):
        return Rows(self._chosen)

    def _chosen(self, at):
        if isinstance(at, tuple):
            return self[self.columns[at[1]]]
        return DataFrame({name: values[at] for name, values in self.data.items()})

    def __getitem__(self, name):
        return Series(self.data[name])

    def __len__(self):
        return max(map(len, self.data.values()))

    def __deepcopy__(self, memo):
        return DataFrame(self.data)

    def __setstate__(self, state):
        vars(self).update(state)

    def equals(self, other):
        return self.columns == other.columns and all(self[name].equals(other[name]) for name in self.columns)


class Rows:
    """What `iloc` gives."""

    def __init__(self, choose):
        self._choose = choose

    def __getitem__(self, where):
        return self._choose(where)


def concat(tables):
    """Tables of one kind, one below the other."""
    kinds = {type(table) for table in tables}
    if len(kinds) != 1:
        raise TypeError("cannot concatenate a table and a column")
    if kinds == {Series}:
        return Series([value for table in tables for value in table])
    return DataFrame({name: [x for table in tables for x in table[name]] for name in tables[0].columns})


stand_in = types.ModuleType("pandas")
stand_in.DataFrame, stand_in.Series, stand_in.concat = DataFrame, Series, concat


@pytest.fixture(params=["as much as is needed", "itself"])
def pandas(request, monkeypatch):
    """pandas, where it is installed, and what stands in for it."""
    if request.param == "itself":
        return pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "pandas", stand_in)
    return stand_in
