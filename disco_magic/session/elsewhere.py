"""What views of ipyparallel, pools and Ray have and a session has not: the message says what to write."""

from __future__ import annotations

from typing import Final

from disco_magic.offers import Missing

_CALL: Final = "session.call_packed(f, 1).get_all() calls f on every worker and waits for the results"
_CALL_ONE: Final = (
    "session.call_packed(f, 1, workers=[0]) calls f on worker 0; .get(0) of that waits for the result"
)
_PUT: Final = "session.put('a', value) sends a value to every worker"
_FETCH: Final = "session['a'].get_all() fetches all workers' values, session['a'].get(2) that of one"
_NO_TASKS: Final = (
    "there are no tasks; in a cell, one worker can hand out work (docs/guide/collectives.md, probe)"
)
_WAIT: Final = "session.sync_all() waits for everything that was sent"
_HERE: Final = {
    "push": _PUT,
    "update": _PUT,
    "pull": _FETCH,
    "get": _FETCH,
    "gather": "%disco gather a joins the workers' parts; session['a'].get_all() is a list of them",
    "execute": "session.run('a = 1') runs a text on every worker, session.run_nowait does not wait",
    "apply": _CALL,
    "apply_async": _CALL,
    "apply_sync": _CALL,
    "map": _NO_TASKS,
    "map_async": _NO_TASKS,
    "map_sync": _NO_TASKS,
    "load_balanced_view": _NO_TASKS,
    "submit": _CALL_ONE,
    "remote": _CALL_ONE,
    "spawn": "session.run('trainer = Trainer()') makes an object on every worker, under one name",
    "ids": "range(session.num_workers) has the workers' numbers",
    "queue_status": "session.doctor() says what each worker is doing",
    "sync_imports": "session.import_python_module('json'), or an import in a cell, imports on every worker",
    "clear": "del session['a'] drops a register, session.restart() all of them",
    "abort": "session.interrupt() stops what the workers are doing",
    "_sync_all": _WAIT,
    "_sync_worker": "session.sync_worker(2) waits for what worker 2 was sent",
    "debug_get_from_remote": "a reference has it: session.call_packed(f, 1).debug_get_from_remote(0)",
    "wait": _WAIT,
    "sync": _WAIT,
    "stop": "session.shutdown() ends it",
    "close": "session.shutdown() ends it",
}


class Elsewhere:
    """Mixin of sessions: asked for what another library's object has, they say what to write instead."""


for _name, _here in _HERE.items():
    setattr(Elsewhere, _name, Missing(_name, f"{{kind!r}} object has no attribute {{name!r}}: {_here}"))
