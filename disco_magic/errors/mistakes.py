"""Says what a mistake was about: ``allreduce: ...``, ``'x' was not sent: ...``."""

from __future__ import annotations

from disco_magic.errors import UsageMistake


def about(what: str) -> _About:
    """Prefix a `UsageMistake` raised in this block with `what`: ``allreduce``, ``'x' was not sent``."""
    return _About(what)


class _About:
    # Not made by `contextmanager`, whose frames would appear in the user's traceback.
    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, mistake: BaseException | None, _: object) -> None:
        if isinstance(mistake, UsageMistake):
            raise type(mistake)(f"{self._what}: {mistake}") from None
