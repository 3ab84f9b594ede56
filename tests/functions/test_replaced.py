"""What is ours for a while, and goes again."""

from __future__ import annotations

import types

from disco_magic.functions.replaced import Replaced


def test_two_threads_may_take_it_at_once():
    meanwhile = []

    class Looked(dict):
        def get(self, *args):
            found = super().get(*args)
            while meanwhile:
                meanwhile.pop()()
            return found

    class Owner(types.ModuleType):
        def __getattribute__(self, name):
            found = super().__getattribute__(name)
            return Looked(found) if name == "__dict__" else found

    owner = Owner("owner")
    owner.function = len
    replaced = Replaced(owner, "function", max)
    replaced.put()
    meanwhile.append(replaced.take)
    replaced.take()
    assert owner.function is len
