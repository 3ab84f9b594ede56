"""Functions and classes of cells in other processes: cloudpickle, and so joblib, takes their code along."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys

import pytest

DEFINED = """
import numpy as np
import pickle
scale = worker_id + 1
def scaled(x): return np.square(x) * scale
class Model:
    by = 2
    def predict(self, x): return int(scaled(x)) * self.by
"""
# What loads it knows nothing of us.
LOADS = (
    "import base64, pickle, sys; print(pickle.loads(base64.b64decode(sys.argv[1])){}); "
    "assert 'disco_magic' not in sys.modules"
)


@pytest.fixture
def s(session):
    started = session(2)
    started.run(DEFINED)
    return started


@pytest.mark.parametrize(
    ("written", "called"), [("scaled", "(3)"), ("Model()", ".predict(3)"), ("Model", "().predict(3)")]
)
def test_what_cloudpickle_writes_another_process_can_load(s, written, called):
    pytest.importorskip("cloudpickle")
    packed = s.run(f"import cloudpickle\ncloudpickle.dumps({written})")
    command = [sys.executable, "-c", LOADS.format(called), base64.b64encode(packed[1]).decode()]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert int(ran.stdout) == (18 if written == "scaled" else 36)


def test_joblib_runs_functions_of_cells_in_its_processes(s):
    pytest.importorskip("joblib")
    ran = s.run(
        "from joblib import Parallel, delayed\n"
        "def where(x):\n    import os\n    return os.getpid(), int(scaled(x))\n"
        "told = Parallel(n_jobs=2)(delayed(where)(x) for x in range(4))\n"
        "import os\nall(pid != os.getpid() for pid, _ in told), [value for _, value in told]",
        workers=[1],
    )
    assert ran[1] == (True, [0, 2, 8, 18])


def test_pickle_itself_goes_by_the_names_as_ever(s):
    for name in ("scaled", "Model"):
        assert s.run(f"pickle.loads(pickle.dumps({name})) is {name}").values == [True] * 2
    assert b"__disco__" in pickle.dumps(s["Model"].get(0))


def test_a_function_of_the_user_s_of_that_name_is_none_of_cloudpickle_s(s):
    s.run("import sys\ndef _getattribute(): return sys.modules['__disco__'].scale")
    assert s.run("_getattribute()").values == [1, 2]
