"""What all tests share: sessions that are closed at the end, and a look at what a test leaves behind."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from disco_magic.callers import namespaces
from disco_magic.functions.affinity import cores
from disco_magic.session import current
from disco_magic.session.config import ThreadedSession
from disco_magic.testing.doubles import Gate
from disco_magic.testing.gpu.kernels import KERNELS
from disco_magic.threads.stacks import frames
from tests.covered import (
    imports_followed,
    keep_coverage_whole,
    measure,
    measure_once,
    other_cases,
    tracer,
    unmeasured,
)

DEADLINE_S = 60
FOLLOWED = pytest.StashKey()  # what follows the steps of a test's thread, if anything does
# A machine with GPUs runs the same tests; those that want a GPU say so. For kernels in other processes, too.
os.environ.setdefault("DISCO_DEVICES", "cpu")


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "leaves_threads(reason): worker threads of this test end after it, in a C call that nobody can end",
    )
    config.addinivalue_line("markers", "gpu: needs a GPU that cupy can use")
    config.addinivalue_line(
        "markers",
        "unmeasured: costs much to measure, from setup to teardown, and covers nothing that others do not",
    )
    # What a shell starts behind "&" ignores Ctrl-C, and so does Python there: no test could stop anything.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # jsonschema, which nbformat needs, would compile a grammar of Lark's with it: 6 s in each process.
    sys.modules.setdefault("rfc3987_syntax", None)
    with suppress(ImportError):
        _keep_jedi_s_cache_apart(os.environ.get("PYTEST_XDIST_WORKER", "alone"))


def pytest_ignore_collect(collection_path, config):
    """``-m gpu`` where IPython is not: what needs it, or more, cannot even be imported; `tests/gpu` can."""
    here = Path(__file__).parent
    if config.option.markexpr.strip() != "gpu" or find_spec("IPython") or here not in collection_path.parents:
        return None
    gpu = here / "gpu"
    return None if collection_path == gpu or gpu in collection_path.parents else True


def pytest_sessionstart(session):
    """Kernels of simulated GPUs and the double of NCCL are compiled once for all processes of a run.

    Also for those that tests start.
    """
    if KERNELS not in os.environ and not hasattr(session.config, "workerinput"):
        folder = TemporaryDirectory(prefix="disco-kernels-")
        session.config.add_cleanup(folder.cleanup)
        session.config.add_cleanup(partial(os.environ.pop, KERNELS))
        os.environ[KERNELS] = folder.name


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Nothing of what is collected is garbage: to look for it is three quarters of a collection's time.

    Of all tests, that is 26 of 34 s of a processor, and each process of a run collects them all. To measure
    what pytest does meanwhile would be another 7.
    """
    gc.disable()
    try:
        with unmeasured() as follow, imports_followed(follow):
            collected = yield
    finally:
        gc.freeze()
        gc.enable()
    # In processes of xdist it has begun only now. Not before it goes on: that puts back what followed before.
    measure_once()
    keep_coverage_whole()
    return collected


def pytest_collection_modifyitems(config, items):
    for each in other_cases(items):
        each.add_marker("unmeasured")
    if hasattr(config, "workerinput"):  # a process of xdist; all of them have the same order
        from tests.scheduling import long_ones_first

        long_ones_first(items)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Measure a test from setup to teardown, and not what pytest does in between: it writes reports."""
    measure(wanted=item.get_closest_marker("unmeasured") is None)
    with unmeasured() as followed:
        item.stash[FOLLOWED] = tracer() or followed
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def _follow(item):
    """Measure setup, call or teardown, with what pytest itself does in there."""
    sys.settrace(item.stash[FOLLOWED])
    try:
        return (yield)
    finally:
        sys.settrace(None)


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _follow


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """No test runs in the process that hands them out; what it has imported by now is measured."""
    measure(wanted=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process more than there are cores: a third of the time of a test it waits for something."""
    return cores() + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """What the files of `tests/browser` share starts once."""
    from tests.scheduling import OneBrowser

    return OneBrowser(config, log) if config.getvalue("dist") == "loadfile" else None


def _keep_jedi_s_cache_apart(process):
    """Another process may be writing the file that Jedi reads; IPython then offers nothing."""
    import jedi

    jedi.settings.cache_directory = str(Path(jedi.settings.cache_directory) / f"disco-tests-{process}")


def _disco_threads():
    return {t for t in threading.enumerate() if t.name.startswith("disco-")}


def _open_sessions():
    return {session.id for session in list(current._alive) if not session.closed}


def stacks(threads):
    """Where each of `threads` is, as text."""
    found = frames()
    return "\n".join(
        f"{thread.name}:\n{''.join(traceback.format_stack(found[thread.ident]))}"
        for thread in threads
        if thread.ident in found
    )


def until(holds, looks=20_000):
    """Return when `holds()` does; some other thread is about to bring it about. A look per millisecond."""
    pause = threading.Event()
    for _ in range(looks):
        if holds():
            return
        pause.wait(0.001)
    pytest.fail("it did not come to that")


def given_up_comes_back(session, gate):
    """The one thread that a session has given up, at a gate, goes on and ends."""
    (stuck,) = session._launcher.stuck
    gate.open()
    stuck.join(DEADLINE_S)
    assert not stuck.is_alive()


def asked(ask):
    """What `ask` gives in another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(ask()))
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture(scope="session", autouse=True)
def kernels_have_no_ports():
    """Kernels that libraries start here listen on files.

    A port is free when it is chosen, but another process may have taken it when the kernel comes to it.
    """
    try:
        manager = import_module("jupyter_client.manager").KernelManager
    except ImportError:
        yield
        return
    begin, numbers = manager.__init__, count()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as place:

        def begin_on_files(self, *args, **given):
            begin(self, *args, **{"transport": "ipc", "ip": f"{place}/{next(numbers)}", **given})

        patch.setattr(manager, "__init__", begin_on_files)
        yield


@pytest.fixture(scope="module", autouse=True)
def nobody_collects_what_was_there_before():
    """A collection looks at what a file's tests made, not at all that their process has imported.

    Every IPython shell that ends collects; without this, half of the time of their tests. What is alive when
    a file begins is never collected: a fixture of the whole run that a test looks at by a weak reference must
    not be part of a cycle.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """No worker thread, namespace, open session or handler of Ctrl-C outlives the test that made it.

    What was there before it (a fixture of the whole module) is not looked at. A session that nobody refers
    to any more ends by itself; its threads get a moment for it.
    """
    threads, names, sessions = _disco_threads(), namespaces.in_use(), _open_sessions()
    sigint = signal.getsignal(signal.SIGINT)
    yield
    left_by_test = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, sigint)  # else each of the tests that follow fails for it
    assert left_by_test == sigint, "a handler of Ctrl-C was left"
    if _disco_threads() - threads or _open_sessions() - sessions:
        gc.collect()
    assert not _open_sessions() - sessions, "sessions were left open"
    if request.node.get_closest_marker("leaves_threads") is None:
        left = _disco_threads() - threads
        for thread in left:
            thread.join(5)
        alive = {thread for thread in left if thread.is_alive()}
        assert not alive, f"worker threads were left:\n{stacks(alive)}"
    assert not namespaces.in_use() - names, "namespaces were left"


@pytest.fixture
def session():
    """Starts sessions of threads, ``session(4, 2)``, that are shut down when the test ends."""
    started = []

    def start(num_workers=2, num_groups=1, **options):
        started.append(ThreadedSession(num_workers, num_groups, **options))
        return started[-1]

    yield start
    for each in started:
        each.shutdown()


@pytest.fixture
def gate():
    """A gate that is open when the test ends, however it ends."""
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def gated(session, gate):
    """Starts sessions whose cells and functions can stop at the fixture `gate`.

    Cells call ``gate(worker_id)``. Threads that a test had replaced are joined at its end: once the gate is
    open, they have to end by themselves.
    """
    started = []

    def start(num_workers=2, num_groups=1, **names):
        started.append(session(num_workers, num_groups, extras=lambda context: {"gate": gate, **names}))
        return started[-1]

    yield start
    gate.open()
    for each in started:
        each.shutdown()
        for thread in each._launcher.stuck:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), f"a replaced thread did not end:\n{stacks([thread])}"


@pytest.fixture
def background():
    """Calls functions in threads: ``background(f, *args)`` returns a function that waits for the outcome."""
    threads = []

    def start(function, *args, **kwargs):
        outcome = []

        def work():
            try:
                outcome.append((function(*args, **kwargs), None))
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                outcome.append((None, error))

        thread = threading.Thread(target=work, daemon=True)
        threads.append(thread)
        thread.start()

        def result():
            thread.join(DEADLINE_S)
            assert outcome, f"the call hangs:\n{stacks([thread])}"
            value, error = outcome[0]
            if error is not None:
                raise error
            return value

        return result

    yield start
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), f"a background call hangs:\n{stacks([thread])}"


@pytest.fixture
def module_of(tmp_path, monkeypatch):
    """Writes a module and gives its name, by which it can be imported during the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def write(source):
        made.append(f"written_module_{len(made)}")  # not ..._test: pytest has a loader of its own for these
        (tmp_path / f"{made[-1]}.py").write_text(source)
        return made[-1]

    yield write
    for name in made:
        sys.modules.pop(name, None)
