"""What strikes a thread at the end of a loop, in the code of cells: no block around the loop is passed over.

Python 3.13 and 3.14 give the jump there no place in the table of exceptions (CPython's issue 130279). 3.11
and 3.12 search the table for what stands before the beginning of the loop (CPython's issue 108214).
"""

from __future__ import annotations

import ctypes
import difflib
import dis
import functools
import importlib.util
import json.decoder
import sys
import textwrap
import threading
import types
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

import disco_magic
from disco_magic.errors import WorkerError, WorkerInterrupt
from disco_magic.threads.loop_ends import covered

set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
before_3_15 = pytest.mark.skipif(sys.version_info >= (3, 15), reason="3.15 needs no other code")


def struck():
    """What strikes the calling thread where it next can be struck, whenever ``-`` is applied to it; gives 1.

    By C code alone: the evaluation loop looks for what is pending after calls of functions and at jumps back.
    """
    strike = functools.partial(set_async_exc, threading.get_ident(), ctypes.py_object(WorkerInterrupt))
    return type("Struck", (), {"__neg__": staticmethod(strike)})()


LOOPS = {
    "while": """
        while -struck:
            pass
    """,
    "while with a long body": """
        while -struck:
            {long}
    """,
    "while on the line after the block's": """
        while True: -struck
    """,
    "while whose comparisons return": """
        while 0 < -struck < 2: _ = 0
    """,
    "if at the end of a while": """
        while True:
            if -struck is None:
                break
    """,
    "while in a while": """
        while True:
            while -struck is None:
                pass
    """,
    "while on one line after a loop": """
        while not struck:
            pass
        while True: -struck
    """,
    "while-else": """
        while -struck:
            pass
        else:
            left.append("else")
    """,
    "while of two conditions": """
        while -struck and struck:
            pass
    """,
    "while of a comparison": """
        while 0 < -struck < 2:
            pass
    """,
    "if at the end of a for": """
        for _ in range(9):
            {long}
            if -struck is None:
                break
    """,
    "if at the end of a for-else": """
        for _ in range(9):
            if not -struck:
                {long}
        else:
            left.append("else")
    """,
    "the first one of two comparisons": """
        for _ in range(9):
            if 2 < -struck < 3:
                left.append("if")
    """,
    "the second one of two comparisons": """
        for _ in range(9):
            if 0 < -struck < 0:
                left.append("if")
    """,
    "a loop in a loop": """
        while True:
            for _ in range(9):
                while -struck:
                    pass
    """,
    "a comprehension": """
        [each for each in range(9) if -struck is None]
    """,
    "a comprehension with a comparison": """
        [each for each in range(9) if 2 < -struck < 3]
    """,
    "a loop after a block": """
        for _ in range(9):
            with noting("inner"):
                pass
            left.clear()
            if -struck is None:
                break
    """,
    "while of a comparison that begins with a block": """
        while 0 < -struck < 2:
            try:
                _ = 0
            finally:
                _ = 1
    """,
    "a loop that begins with a block": """
        while -struck:
            try:
                _ = 0
            finally:
                _ = 1
    """,
}
FRAMES = {
    "in a function": """
        def run():
            with noting("outer"), noting("middle"):
                try:
                    {loop}
                finally:
                    left.append("finally")
        run()
    """,
    "at the end of a function": """
        def run():
            try:
                try:
                    try:
                        {loop}
                    except BaseException: left.append("finally"); raise
                except BaseException: left.append("middle"); raise
            except BaseException: left.append("outer"); raise
        run()
    """,
    "in a module": """
        with noting("outer"), noting("middle"):
            try:
                {loop}
            finally:
                left.append("finally")
    """,
    "in a handler": """
        def run():
            with noting("outer"):
                try:
                    raise ValueError
                except ValueError:
                    with noting("middle"):
                        try:
                            {loop}
                        except BaseException:
                            left.append("finally")
                            raise
        run()
    """,
    "in a generator": """
        def run():
            with noting("outer"), noting("middle"):
                try:
                    yield
                    {loop}
                finally:
                    left.append("finally")
        for _ in run(): pass
    """,
    "in a coroutine": """
        async def run():
            with noting("outer"), noting("middle"):
                try:
                    {loop}
                finally:
                    left.append("finally")
        run().send(None)
    """,
}
LONG = "; ".join(["_ = 0"] * 300)


def written(frame, loop):
    indent = next(line for line in frame.splitlines() if "{loop}" in line).partition("{")[0]
    inner = textwrap.indent(textwrap.dedent(loop), indent).strip()
    return textwrap.dedent(frame.replace("{loop}", inner)).replace("{long}", LONG)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("loop", LOOPS)
def test_what_strikes_at_the_end_of_a_loop_passes_over_no_block_around_it(loop, frame):
    left = []

    @contextmanager
    def noting(name):
        try:
            yield
        finally:
            left.append(name)

    names = {"struck": struck(), "noting": noting, "left": left}
    code = covered(compile(written(FRAMES[frame], LOOPS[loop]), "<loops>", "exec"))
    with pytest.raises(WorkerInterrupt):
        exec(code, names)
    assert left == ["finally", "middle", "outer"]


def test_a_block_that_has_ended_before_the_end_of_a_loop_does_not_cover_it():
    caught = []
    source = """
        def run():
            while -struck:
                try: _ = 0
                except BaseException: caught.append("first")
        def run_on():
            for _ in range(9):
                try: _ = 0
                except BaseException: caught.append("second")
                if -struck is None: pass
        for each in (run, run_on):
            try: each()
            except BaseException: caught.append("outer")
    """
    code = covered(compile(textwrap.dedent(source), "<loops>", "exec"))
    exec(code, {"struck": struck(), "caught": caught})
    assert caught == ["outer", "outer"]


OVER = {
    "a try before a loop": """
        def run():
            try: _ = 0
            except BaseException: caught.append("over")
            while True: -struck
    """,
    "an except that ends": """
        def run():
            try: 1 / 0
            except BaseException as error:
                caught.append(type(error).__name__)
                if -struck is None: pass
            len(())
    """,
    "a try at the beginning of a loop": """
        def run():
            while True:
                try: _ = 0
                except BaseException: caught.append("over")
                -struck
    """,
}


@pytest.mark.parametrize("source", OVER.values(), ids=[*OVER])
def test_a_handler_whose_block_is_over_is_not_called(source):
    caught = []
    names = {"struck": struck(), "caught": caught}
    exec(covered(compile(textwrap.dedent(source), "<loops>", "exec")), names)
    with pytest.raises(WorkerInterrupt):
        names["run"]()
    assert caught in ([], ["ZeroDivisionError"])


def test_a_cell_that_is_struck_at_the_end_of_a_loop_cleans_up(session):
    s = session(2)
    s.put("struck", struck)
    cell = "each, left = struck(), []\ntry:\n    while -each: pass\nfinally:\n    left.append(worker_id)\n"
    with pytest.raises(WorkerError) as caught:
        s.run(cell)
    assert {type(each.exception) for each in caught.value.failures.values()} == {WorkerInterrupt}
    assert s["left"].get_all() == [[0], [1]]


def test_a_loaded_module_that_is_struck_at_the_end_of_a_loop_cleans_up(session, tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        "left = []\n"
        "def loop(struck):\n"
        "    each = struck()\n"
        "    try:\n"
        "        while -each: pass\n"
        "    finally:\n"
        "        left.append(1)\n"
        "def leave():\n"
        "    return left\n"
    )
    s = session(1)
    model = s.load_vm_module(path)
    result = model["loop"](struck)
    with pytest.raises(WorkerError, match="WorkerInterrupt"):
        result.get(0)
    assert model["leave"]().get(0) == [1]


def codes_in(code):
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes_in(each)


def source_of(module):
    return importlib.util.find_spec(module).loader.get_source(module)


def entries(code):
    return vars(dis.Bytecode(code))["exception_entries"]


EARLIER = (0, 2) if sys.version_info < (3, 13) else (0,)  # bytes by which a block may begin earlier


@before_3_15
@pytest.mark.parametrize(
    "module", ["_pydecimal", "argparse", "asyncio.tasks", "difflib", "typing", "zipfile"]
)
def test_only_the_ends_of_blocks_are_others(module):
    code = compile(source_of(module), module, "exec")
    both = [*zip(codes_in(code), codes_in(covered(code)), strict=True)]
    assert any(before != after for before, after in both) or sys.version_info < (3, 13)  # these have few
    for before, after in both:
        same = before.replace(co_exceptiontable=b"", co_consts=())
        assert after.replace(co_exceptiontable=b"", co_consts=()) == same
        pairs = [*zip(entries(before), entries(after), strict=True)]
        assert all(new._replace(start=old.start, end=old.end) == old for old, new in pairs)
        assert all(
            old.start - new.start in EARLIER and old.end - new.end <= max(EARLIER) for old, new in pairs
        )
        assert all(one.end <= another.start for (_, one), (_, another) in pairwise(pairs))


@before_3_15
def test_code_whose_blocks_cover_all_their_loops_is_itself():
    code = compile("try:\n    g()\n    while True: f()\nfinally:\n    g()\n", "<loops>", "exec")
    again = covered(covered(compile("try:\n    while f(): pass\nfinally:\n    g()\n", "<loops>", "exec")))
    assert covered(code) is code
    assert covered(again) is again


def executed(module):
    """That module of the standard library, executed with blocks that cover their loops."""
    names = vars(types.ModuleType(module))
    exec(covered(compile(source_of(module), module, "exec")), names)
    return names


def test_such_code_does_what_it_did():
    lines = [source_of("json.decoder").splitlines(), source_of("json.encoder").splitlines()]
    assert [*executed("difflib")["unified_diff"](*lines)] == [*difflib.unified_diff(*lines)]
    text = json.dumps({str(each): [each / 7, None, {"é\n": ["x"] * each}] for each in range(50)})
    again = executed("json.decoder")["JSONDecoder"](strict=False)
    again.scan_once = json.scanner.py_make_scanner(again)
    assert again.decode(text) == json.loads(text)


# What handles an exception in a ``with`` or ``try``, and what ends such handling. A comprehension has a
# handler, too, which puts its variables back, and so has a generator; there may be a block around these.
OF_BLOCKS = ("PUSH_EXC_INFO", "COPY")
HOME = Path(disco_magic.__file__).parent


def is_of_a_block(code, entry):
    """Whether a ``with`` or ``try`` is told of what strikes in that entry of the table of exceptions."""
    around = [each for each in entries(code) if each.start <= entry.target < each.end]
    return any(dis.opname[code.co_code[each.target]] in OF_BLOCKS for each in (entry, *around))


def lost_ends(path):
    """The ends of loops in a file of ours that their ``with`` or ``try`` does not cover."""
    code = compile(path.read_bytes(), str(path), "exec")
    for before, after in zip(codes_in(code), codes_in(covered(code)), strict=True):
        if before.co_exceptiontable == after.co_exceptiontable:
            continue  # in a moment
        lines = [line for line, *_ in before.co_positions()]
        for old, new in zip(entries(before), entries(after), strict=True):
            if is_of_a_block(before, old):
                if new.end > old.end and sys.version_info >= (3, 13):  # 3.12 does not look there
                    yield f"{path.relative_to(HOME)}:{lines[old.end // 2]}"
                if not any(each.start <= new.start < each.end for each in entries(before)):
                    yield f"{path.relative_to(HOME)}:{lines[old.start // 2]}"


@pytest.mark.unmeasured
def test_no_block_of_ours_loses_the_end_of_a_loop():
    found = {each for path in HOME.rglob("*.py") for each in lost_ends(path)}
    assert not found, (
        f"{', '.join(sorted(found))}: on this Python what strikes at the end of such a loop passes over the "
        "`with` or `try` around it; put the loop into a function of its own, or begin its body with "
        "`if ...: continue` instead of ending it with an `if`; take `filter` instead of the `if` of a "
        "comprehension, and `map` in `any(...)` and `all(...)`; before 3.13, do not begin a `try` with a "
        "loop of one line"
    )
