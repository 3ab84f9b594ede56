"""What a session's workers did and when: `Session.timeline`."""

from __future__ import annotations

from disco_magic.core.timeline import Timeline
from disco_magic.session.dispatch import Dispatch


class Recording(Dispatch):
    """Mixed into `Session`; works while workers are busy or stuck, and after the session was closed."""

    def timeline(self, last: float | None = None) -> Timeline:
        """Who did what when, since the workers were started: cells, calls, collectives, copies, errors.

        What goes on is shown up to now. Of each worker the last 4,096 spans are kept; calls that took less
        than 1 ms, and pauses between them that are shorter still, are shown only as part of a longer time
        without a pause.

        Args:
            last: how many seconds, up to now; None: all.

        Returns:
            Timeline: shows itself as a lane per worker; `Timeline.save` writes a trace for Perfetto.

        Raises:
            UsageMistake: `last` is not above 0.

        Cost: some 20 us per span that is kept, at most 4,096 per worker; recording costs nothing per call.
        """
        timeline = Timeline.of_records(self.id, self._launcher.records())
        return timeline if last is None else timeline.last(last)


def timeline_of(session: Recording, seq: int) -> Timeline:
    """What was done in the command of that number, and what goes on.

    As good as free: the rest, which may be 4,096 spans of each worker, is not put into words.
    """
    return Timeline.of_records(session.id, session._launcher.records(seq))  # noqa: SLF001 - as `timeline`
