"""``python -m tests.faults``: try the whole matrix; with ``--write`` put its figures into docs/faults.md."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.faults.exits import Exits
from tests.faults.matrix import EXIT, all_cases
from tests.faults.page import PAGE, machine, render
from tests.faults.trial import Trials

if TYPE_CHECKING:
    from tests.faults.matrix import Case


def main() -> int:
    """Exit code: 1 if a case went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/faults.md, if everything went well")
    parser.add_argument("words", nargs="*", help="only cases whose names contain all of these")
    options = parser.parse_args()
    if options.write and options.words:
        parser.error("--write takes the whole matrix")
    cases = [case for case in all_cases() if all(word in str(case) for word in options.words)]
    exits = [case for case in cases if case.moment == EXIT]
    seconds: dict[Case, float] = {}
    wrong, measured = 0, machine()
    with Trials() as trials, Exits(exits) as ends:
        for case in cases:
            try:
                seconds[case] = (ends if case.moment == EXIT else trials).try_case(case)
            except Exception as error:  # noqa: BLE001 - told, and counted
                wrong += 1
                say(f"{case}\n  {type(error).__name__}: {error}")
    worst = 1e3 * max(seconds.values(), default=0.0)
    say(f"{len(cases)} cases, {wrong} went wrong; the longest time to an error was {worst:.1f} ms")
    if options.write and not wrong:
        PAGE.write_text(render(seconds, measured), encoding="utf-8")
        say(f"{PAGE} is written")
    return int(bool(wrong))


def say(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
