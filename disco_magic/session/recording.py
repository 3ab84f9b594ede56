"""What a session's workers did and when: `Session.timeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.session.dispatch import Dispatch

if TYPE_CHECKING:
    from disco_magic.core.timeline import Timeline


class Recording(Dispatch):
    """Mixin of `Session`; works while workers are busy or stuck, and after the session was closed."""

    def timeline(self, last: float | None = None) -> Timeline:
        """Return who did what when since the workers were started: cells, calls, collectives, copies, errors.

        What is still running is shown up to now. The last 4,096 spans of each worker are kept. Calls of less
        than 1 ms, with even shorter pauses between them, are shown only as part of a longer time without a
        pause.

        Args:
            last: how many seconds back from now; None: all.

        Returns:
            Timeline: displays itself as a lane per worker; `Timeline.save` writes a trace for Perfetto.

        Raises:
            UsageMistake: `last` is not positive.

        Cost: some 20 us per span that is kept, at most 4,096 per worker; recording costs nothing per call.

        Example:
            >>> session.run("allreduce(1)").errors
            {}
            >>> [span.label for span in session.timeline().lane(2) if span.kind == "collective"][-1]
            'allreduce(int, op=sum)'
        """
        from disco_magic.core.timeline import Timeline  # see `Recorder.record`

        timeline = Timeline.of_records(self.id, self._launcher.records())
        return timeline if last is None else timeline.last(last)


def timeline_of(session: Recording, seq: int) -> Timeline:
    """Return what was done in command `seq`, and what is running.

    Costs almost nothing: the other spans, up to 4,096 per worker, are not put into words.
    """
    from disco_magic.core.timeline import Timeline

    return Timeline.of_records(session.id, session._launcher.records(seq))  # noqa: SLF001 - as `timeline`
