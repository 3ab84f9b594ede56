"""When it fails: what the controller and the other workers do meanwhile. Gates force every order.

Each function here sends what fails, and notes in the scene how the controller's waits ended.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from disco_magic.errors import SessionClosed
from tests.faults.matrix import GET, IDLE, MEETING, RUN, RUNNING, SHUTDOWN, SYNC, TWO
from tests.faults.scene import Scene, Second, agree, alone, outcome_of, together, until
from tests.faults.stages import ASKED, AT_ONCE, DEADLINE_S, SENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.doubles import Gate

    Wait = Callable[[], object]


def idle(scene: Scene) -> None:
    """Nobody waits, and the workers have nothing else to do."""
    own = scene.stage.send(scene.session)
    sent = scene.session.ledger.seq
    scene.gate.open()
    if scene.stage.begins == SENT:
        scene.until_failed()
    scene.listen(own or scene.sync)
    if scene.stage.begins == AT_ONCE:
        agree("number of the last command", scene.session.ledger.seq, sent)


# --- the workers are busy ------------------------------------------------------------------------------


def running(scene: Scene) -> None:
    """A call and a cell come before it, a call behind it; they are not disturbed."""
    session, everybody = scene.session, list(range(scene.session.num_workers))
    session.call_packed(scene.hold)
    before = session.run_nowait("worker_id")
    own = scene.stage.send(session)
    after = session.call_packed(alone)
    scene.gate.open()
    {AT_ONCE: _fail_then_open, ASKED: _ask_then_open}.get(scene.stage.begins, _open_then_fail)(scene, own)
    agree("the cell before it", before.wait(DEADLINE_S).values, everybody)
    agree("the call after it", after.get_all(DEADLINE_S), everybody)


def _open_then_fail(scene: Scene, own: Wait | None) -> None:
    scene.hold.open()
    scene.until_failed()
    scene.listen(own or scene.sync)


def _fail_then_open(scene: Scene, own: Wait) -> None:
    scene.listen(own)
    scene.hold.open()


def _ask_then_open(scene: Scene, own: Wait) -> None:
    def open_when_it_waits() -> None:
        scene.until_waiting(scene.main)
        scene.hold.open()

    opened = scene.later(open_when_it_waits)
    scene.listen(own)
    opened.result(DEADLINE_S)


# --- the other workers wait in a collective ------------------------------------------------------------


def meeting(scene: Scene) -> None:
    """The others wait in a collective: of the same command, or of the next one if it has none."""
    own = scene.stage.send(scene.session)
    if scene.stage.begins == AT_ONCE:
        following = scene.session.call_packed(_together_but_one, scene.hold)
        scene.until_meeting(scene.session.num_workers - 1)
        scene.listen(own or scene.sync)
        scene.hold.open()
    else:
        opened = scene.later(_open_when_they_meet, scene)
        scene.listen(own or scene.sync)
        following = opened.result(DEADLINE_S)
    if following is not None:
        size = scene.session.num_workers
        agree("the others' collective", following.get_all(DEADLINE_S), [size] * size)


def _together_but_one(hold: Gate) -> int:
    if alone() == 0:
        hold()
    return together()


def _open_when_they_meet(scene: Scene) -> Any:
    scene.until_failing()
    following = scene.session.call_packed(together) if scene.stage.begins == ASKED else None
    scene.until_meeting(len(scene.case.where.others))
    scene.gate.open()
    return following


# --- the controller waits ------------------------------------------------------------------------------


def sync_waits(scene: Scene) -> None:
    """`sync_all` waits, beside whoever waits for this alone."""
    own = scene.stage.send(scene.session)
    _wait(scene, own, scene.sync)


def get_waits(scene: Scene) -> None:
    """`get_all` waits: for what fails, or for another register beside whoever waits for this alone."""
    own = scene.stage.send(scene.session)
    ref = scene.stage.ref if own is None else scene.session.call_packed(alone)
    _wait(scene, own, lambda: ref.get_all(DEADLINE_S))


def run_waits(scene: Scene) -> None:
    """`run` of a later cell waits, beside whoever waits for this alone."""
    own = scene.stage.send(scene.session)
    _wait(scene, own, lambda: scene.session.run("worker_id", timeout=DEADLINE_S))


def two_wait(scene: Scene) -> None:
    """Two threads wait for all workers."""
    scene.stage.send(scene.session)
    _wait_both(scene, scene.sync, scene.sync)


def _wait(scene: Scene, own: Wait | None, wait: Wait) -> None:
    if own is None:
        _wait_both(scene, wait, None)
    elif scene.stage.begins == AT_ONCE:
        scene.session.call_packed(scene.hold)
        other = scene.second(wait)
        scene.until_waiting(other.thread)
        scene.listen(own)
        scene.hold.open()
        scene.outcomes.append(other.outcome())
    else:
        _wait_both(scene, own, wait)


def _wait_both(scene: Scene, first: Wait, second: Wait | None) -> None:
    def open_when_all_wait() -> Second | None:
        scene.until_failing()
        other = None if second is None else scene.second(second)
        scene.until_waiting(scene.main, *([] if other is None else [other.thread]))
        scene.gate.open()
        return other

    opened = scene.later(open_when_all_wait)
    scene.listen(first)
    other = opened.result(DEADLINE_S)
    if other is not None:
        scene.outcomes.append(other.outcome())


# --- the session ends ----------------------------------------------------------------------------------


def shutdown(scene: Scene) -> None:
    """`shutdown` waits until it has failed; afterwards the session is started again."""
    session, stage = scene.session, scene.stage
    own = None if stage.lasts else stage.send(session)
    if stage.begins == AT_ONCE:
        _fail_while_it_ends(scene, own or scene.sync)
    else:
        ending = scene.later(_end, scene)
        if own is not None and stage.begins == ASKED:
            scene.listen(own)
        ended = partial(ending.result, DEADLINE_S)
        if own is None:
            scene.listen(ended)
        else:
            ended()
            if stage.begins == SENT:
                scene.listen(own)
    agree("what a closed session raises", type(outcome_of(scene.sync).error), SessionClosed)
    session.restart()


def _end(scene: Scene) -> None:
    if not scene.stage.lasts:
        scene.until_failing()
    ended = scene.later(scene.session.shutdown, None)
    until(lambda: scene.session.closed, "the session is closed")
    if scene.stage.lasts:
        scene.until_failing()
    scene.gate.open()
    ended.result(DEADLINE_S)


def _fail_while_it_ends(scene: Scene, own: Wait) -> None:
    scene.session.call_packed(scene.hold)
    ended = scene.later(scene.session.shutdown, None)
    until(lambda: scene.session.closed, "the session is closed")
    scene.listen(own)
    scene.hold.open()
    ended.result(DEADLINE_S)


MOMENTS: dict[str, Callable[[Scene], None]] = {
    IDLE: idle,
    RUNNING: running,
    MEETING: meeting,
    SYNC: sync_waits,
    GET: get_waits,
    RUN: run_waits,
    TWO: two_wait,
    SHUTDOWN: shutdown,
}
