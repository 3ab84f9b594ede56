"""`check_plane`: what every implementation of `disco_magic.core.interfaces.Plane` has to do.

The checks are in four files: `plane_values` (the right numbers in the right place), `plane_parts` (parts of
equal and different lengths), `plane_messages` (send and recv) and `plane_conduct` (refused calls,
released workers, what is left behind).
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from disco_magic.testing.plane_conduct import CONDUCT_CHECKS
from disco_magic.testing.plane_messages import MESSAGE_CHECKS
from disco_magic.testing.plane_parts import PART_CHECKS
from disco_magic.testing.plane_values import VALUE_CHECKS
from disco_magic.testing.stage import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from disco_magic.core.interfaces import Plane
    from disco_magic.testing.stage import Run

PLANE_CHECKS = (*VALUE_CHECKS, *PART_CHECKS, *MESSAGE_CHECKS, *CONDUCT_CHECKS)


def check_plane(
    make_plane: Callable[[int], Plane],
    run: Run,
    *,
    sizes: Iterable[int] = (1, 2, 3, 4),
    checks: Iterable[Callable[[Plane, int, Run], None]] = PLANE_CHECKS,
) -> None:
    """Run a plane through all checks; raise AssertionError at the first one that fails.

    Args:
        make_plane: returns a new plane for that many workers; it is closed after each check.
        run: executes a program on all workers, see `disco_magic.testing.stage.Run`.
        sizes: numbers of workers to try. 3 finds errors that 2 hides.
        checks: the checks; each is called with a plane, its number of workers and `run`.
    """
    for check in checks:
        for size in sizes:
            with closing(make_plane(size)) as plane, told(check, size):
                check(plane, size, run)
