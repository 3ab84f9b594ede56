"""Classes of %%disco cells in a notebook: saved and loaded, fetched and handed out."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError
from disco_magic.session.current import session

NET = "%%disco\nclass Net:\n    def __init__(self, w):\n        self.w = w"
CFG = """%%disco
import dataclasses, enum
class Mode(enum.Enum):
    FAST = 1
@dataclasses.dataclass
class Cfg:
    lr: float
    mode: Mode = Mode.FAST
"""


@pytest.mark.parametrize("again", ["%disco stop\n%disco start -n 2", "%disco restart"])
def test_a_checkpoint_is_loaded_in_a_later_session(shell, tmp_path, again):
    shell.ip.user_ns["path"] = str(tmp_path / "net.pickle")
    shell.run("%disco start -n 2")
    shell.run(NET)
    shell.run(
        "%%disco -w 0 --push path\nimport pickle\nwith open(path, 'wb') as f:\n    pickle.dump(Net(3), f)"
    )
    for line in again.splitlines():
        shell.run(line)
    load = "%%disco --push path\nimport pickle\nwith open(path, 'rb') as f:\n    net = pickle.load(f)\n"
    with pytest.raises(CellError, match=r"'Net' .*first run the cell that defines it"):
        shell.run(f"{load}net")
    shell.run(NET)
    shell.run(f"{load}(type(net) is Net, net.w)")
    assert shell.lines[-1] == "[0-1] (True, 3)"


def test_the_notebook_loads_a_checkpoint_too(four, tmp_path):
    four.ip.user_ns["path"] = str(tmp_path / "net.pickle")
    four.run(NET)
    four.run(
        "%%disco -w 3 --push path\nimport pickle\nwith open(path, 'wb') as f:\n    pickle.dump(Net(3), f)"
    )
    assert four.run("import pickle, pathlib; net = pickle.loads(pathlib.Path(path).read_bytes()); net.w") == 3
    assert type(four.ip.user_ns["net"]) is session()["Net"].get(0)


def test_what_is_got_and_broadcast_is_of_each_worker_s_own_class(four):
    four.run(CFG)
    four.run("%%disco\ncfg = Cfg(.1 + worker_id)")
    four.run("%disco get cfg")
    four.run("%disco broadcast cfg")
    four.run("%%disco\n(cfg == Cfg(.1), isinstance(cfg, Cfg), cfg.mode is Mode.FAST)")
    assert four.lines[-1] == "[0-3] (True, True, True)"


def test_what_is_scattered_is_of_each_worker_s_own_class(four):
    four.run(CFG)
    four.run("%%disco\ncfgs = [Cfg(i) for i in range(num_workers)]")
    four.run("%disco get cfgs")
    four.run("%disco scatter cfgs")
    four.run("%%disco\ncfgs == [Cfg(worker_id)]")
    assert four.lines[-1] == "[0-3] True"


def test_the_repr_of_an_object_names_no_worker(four):
    four.run(NET)
    four.run("%%disco\nrepr(Net(1))[:14]")
    assert four.lines[-1] == "[0-3] '<__disco__.Net'"
