"""Code of Python and of libraries in which no interrupt may strike, because a lock would stay taken for ever.

A thread that waits for a lock gets a pending exception when the call returns with the lock: before the
``try`` or ``with`` that would release it, if a Python function takes the lock. A thread that is about to
release it is struck as the releasing function begins. So:

  1. An interrupt strikes only if the innermost frame is not of such code. CPython raises it in that very
     frame, as soon as the thread goes on. Only library code counts: a user's own `__exit__` may never end.
  2. If it is, a thread of ours looks again and again (`pursuits.py`), and strikes as soon as it may. Such
     code is short; a thread that waits in it for others, which import the same module for instance, goes on
     when those are struck.

Nor may it strike where Python swallows exceptions, in the finalizers of library objects.

User code that calls ``lock.acquire()`` without a ``with`` is as safe as it is from Ctrl-C in a program.
"""

from __future__ import annotations

import _weakrefset
import dis
import queue
import sys
import threading
import weakref
from concurrent.futures import _base, thread
from importlib import _bootstrap, _bootstrap_external
from math import inf
from time import perf_counter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final

from disco_magic.functions.execution.unheard import SPARED
from disco_magic.libraries import is_of_library
from disco_magic.threads.locks import STRIKES_AFTER_ENTER
from disco_magic.threads.patience import pause
from disco_magic.threads.stacks import frame_of, frames, instruction_of
from disco_magic.workers import injection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import FrameType

_A_MOMENT_S: Final = 1e-6
# The part of a slice in which further threads may be struck after the first.
_OF_A_SLICE: Final = 0.75
# So many threads are struck between two looks at the clock: 0.2 ms.
_AT_ONCE: Final = 128
_THREADING: Final = threading.__file__
# Names in code of the import system that takes or releases its locks, holds an open module file, or is called
# when a lock is no longer needed.
_IN_IMPORTS: Final = frozenset(
    {"acquire", "release", "acquire_lock", "release_lock", "_blocking_on", "blocking_on", "blocked_on"}
    | {"FileIO", "_remove_dead_weakref"}
)


def _in_imports(things: Iterable[object]) -> Iterator[CodeType]:
    """Yield the code of functions and methods in which nothing may strike an import.

    The rest of it, which finds and executes modules, takes what it needs by a ``with``.
    """
    for thing in things:
        if isinstance(thing, CodeType):
            if _IN_IMPORTS.intersection((*thing.co_names, *thing.co_varnames)):
                yield thing
            yield from _in_imports(thing.co_consts)
        elif isinstance(thing, FunctionType):
            yield from _in_imports([thing.__code__])
        elif isinstance(thing, type) and thing.__module__ in _IMPORT_SYSTEM:
            yield from _in_imports(vars(thing).values())


_IMPORT_SYSTEM: Final = (_bootstrap.ModuleSpec.__module__, _bootstrap_external.FileLoader.__module__)
_CODES: Final = frozenset(
    function.__code__
    for function in (
        threading.Condition._acquire_restore,  # type: ignore[attr-defined]  # noqa: SLF001 - in the middle of `wait`
        threading.Condition._release_save,  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        threading.Semaphore.acquire,
        threading.Semaphore.release,  # struck as it begins, the permit would be lost
        threading.BoundedSemaphore.release,
        # Struck here, a module that exists but is not bound in its package yet would be missing for good.
        # What takes long is in the frames of the functions that these call.
        _bootstrap._load_unlocked,  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        _bootstrap._find_and_load_unlocked,  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        _bootstrap._verbose_message,  # type: ignore[attr-defined]  # noqa: SLF001 - as above
    )
) | frozenset(_in_imports([*vars(_bootstrap).values(), *vars(_bootstrap_external).values()]))
# They take or release locks, as those of `Condition` do, or whatever else a ``with`` is for; or exceptions
# raised in them are lost.
_OF_LIBRARIES: Final = frozenset({"__enter__", "__exit__", "__aenter__", "__aexit__", "__del__"})
# The same holds for callbacks of weak references.
_WEAK: Final = frozenset({weakref.__file__, _weakrefset.__file__})
_OF_WEAK: Final = frozenset({"remove", "_remove"})
_OF_TORCH: Final = (
    # PyTorch calls this from C++ that allows no exception, which ends the process; and its caller: a thread
    # in a C call gets its exception at its next Python code.
    ("torch/_library/simple_registry.py", "find_torch_dispatch_rule"),
    ("torch/_ops.py", "__call__"),
    ("torch/utils/weak.py", "remove"),  # like the first
)
_START: Final = threading.Thread.start.__code__
# From 3.13 on, a thread that had to release the GIL is not struck there, but where it may next have to: after
# a ``with`` over a condition, that is where `__exit__` begins. These files are full of those.
_SHORT: Final = frozenset({_THREADING, queue.__file__, _base.__file__, thread.__file__})
_BLOCKING: Final = frozenset({threading.Condition.wait.__code__, threading.Thread.join.__code__})
_STRIKES_LATER: Final = sys.version_info >= (3, 13)


def is_fragile(frame: FrameType | None) -> bool:
    """Whether an interrupt of a thread with this innermost frame could leave a lock taken."""
    return frame is not None and (_is_fragile(frame.f_code) or _is_fragile_there(frame))


def strikable(thread_ids: Iterable[int]) -> list[int]:
    """Those of these threads that may be struck where they are now.

    One look at all of them: a look for each would take time in the square of how many threads there are.
    """
    return _strikable(thread_ids, frames())


def _strikable(thread_ids: Iterable[int], there: Mapping[int, FrameType]) -> list[int]:
    known: dict[int, bool] = {}  # by the identity of the code, which lives as long as its frame
    found = []
    for each in thread_ids:
        frame = there.get(each)
        if frame is not None and id(frame.f_code) not in known:
            known[id(frame.f_code)] = _is_fragile(frame.f_code)
        if frame is None or not (known[id(frame.f_code)] or _is_fragile_there(frame)):
            found.append(each)
    return found


def _is_fragile(code: CodeType) -> bool:
    return code in _CODES or code in SPARED or _is_of_library_and_short(code)


def _is_fragile_there(frame: FrameType) -> bool:
    """Whether it is the place in its code that makes a frame fragile, or who has called it."""
    code = frame.f_code
    short = _STRIKES_LATER and code.co_filename in _SHORT and code not in _BLOCKING
    if short and instruction_of(frame) != "RESUME":  # one that has only begun may be struck
        return True
    if STRIKES_AFTER_ENTER and _enters(frame):
        return True
    # On 3.11 the exception hits the thread that is being started instead, which then never reports its start.
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename == _THREADING:
        if caller.f_code is _START:
            return True
        caller = caller.f_back
    return False


def _is_of_library_and_short(code: CodeType) -> bool:
    if code.co_name in _OF_WEAK and code.co_filename in _WEAK:
        return True
    if any(code.co_name == name and code.co_filename.endswith(file) for file, name in _OF_TORCH):
        return True
    return code.co_name in _OF_LIBRARIES and is_of_library(code.co_filename)


def _enters(frame: FrameType) -> bool:
    """Whether C code of an ``__enter__`` is running for a ``with`` of this frame, in Python 3.14."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[at]] == "CALL" and dis.opname[code[at - 2]] == "LOAD_SPECIAL"


class _Slice(threading.local):
    """The calling thread's time slice: for a switch interval no other thread asks for the GIL."""

    _began_s = -inf

    def take(self) -> None:
        """Begin a slice, unless one has just begun: if other threads compute, each of them runs before it."""
        if not self.lasts:
            pause(_A_MOMENT_S)
            self.has_begun()

    @property
    def lasts(self) -> bool:
        """Whether no other thread has run since the slice began: they ask for the GIL when it is over."""
        return perf_counter() - self._began_s < _OF_A_SLICE * sys.getswitchinterval()

    def has_begun(self) -> None:
        """Note that the calling thread has taken the GIL only just."""
        self._began_s = perf_counter()

    def end(self) -> None:
        """Let the next `take` begin a new one."""
        self._began_s = -inf


_slice: Final = _Slice()


def note_wait() -> None:
    """Note that the calling thread comes from a wait: it may strike at once, in the slice that it has now."""
    _slice.has_begun()


def end_slice() -> None:
    """Let the next strike of the calling thread begin a new slice."""
    _slice.end()


def strike(thread_id: int) -> bool:
    """Raise WorkerInterrupt in another thread if it may be struck where it is now; return whether it was.

    The GIL is taken anew first, and so not requested for a while, in which several threads can be struck. If
    the thread nevertheless goes on and comes to fragile code in between, the exception is taken back.
    """

    def may_be_struck() -> bool:
        return not is_fragile(frame_of(thread_id))

    _slice.take()
    return may_be_struck() and injection.inject(thread_id, may_be_struck)


def strike_all(thread_ids: Sequence[int]) -> list[int]:
    """`strike` several other threads; return those that were struck. The others are in fragile code.

    If n threads compute, the caller waits for n slices until it has its own. So it waits for nothing else,
    and a slice serves as many threads as it can.
    """
    struck: list[int] = []
    ahead = [*thread_ids]
    while ahead:
        _slice.take()
        ahead = strikable(ahead)
        now: list[int] = []
        while ahead and (not now or _slice.lasts):
            injection.inject_all(ahead[:_AT_ONCE])
            now += ahead[:_AT_ONCE]
            del ahead[:_AT_ONCE]
        if not _slice.lasts:  # they may have gone on, as in `strike`
            late = {*now}.difference(strikable(now))
            now = [each for each in now if each not in late] + injection.take_back(late)
        struck += now
    return struck
