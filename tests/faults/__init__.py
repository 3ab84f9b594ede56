"""The fault matrix: what fails x in which way x where x when, and what a session has to make of it.

::

    stages, agreed  what fails            ways    how            kinds   sessions that it is tried with
    moments, scene  when, and the order of events forced         exits, exiting  while the interpreter exits
    matrix          all combinations, what is left out, what is expected
    trial           one of them tried     page    the table in docs/faults.md

``python -m tests.faults`` tries them all. A new kind of session is a row in `kinds`; a new way to fail a row
in `ways`, named by the kinds that survive it.
"""

from tests.faults.exits import CAN_FORK, Exits
from tests.faults.matrix import EXIT, Case, all_cases
from tests.faults.scene import DisagreementError
from tests.faults.trial import Trials

__all__ = ["CAN_FORK", "EXIT", "Case", "DisagreementError", "Exits", "Trials", "all_cases"]
