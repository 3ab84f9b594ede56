"""Timelines as tests make them: their spans by hand, no session."""

from __future__ import annotations

from dataclasses import replace

from disco_magic.core.timeline import Span, Timeline

BOTH = (0, 1)
SITE = "Cell In[2], line 1"


def timeline(*spans, end_s=10.0, workers=2, whole_from_s=None, dropped=None):
    """What session 3 did from 0 s to `end_s`."""
    return Timeline(
        session_id=3,
        num_workers=workers,
        spans=spans,
        start_s=0.0,
        end_s=end_s,
        whole_from_s=whole_from_s or (0.0,) * workers,
        dropped=dropped or (0,) * workers,
        workers=tuple(range(workers)),
    )


def cell(worker, start, end):
    return Span(worker, "cell", "Cell 1", start, end)


def met(worker, start, end, number=1, members=BOTH, **more):
    """All of a collective, which `members` have in common by its number."""
    return Span(worker, "collective", "barrier()", start, end, SITE, meeting=(members, 7, number), **more)


def waiting(worker, start, end, **more):
    """The part of a collective asleep for others."""
    return Span(worker, "waiting", "barrier()", start, end, SITE, "for others", **more)


def asleep(*spans):
    """The collectives, and that they were waits from beginning to end."""
    waits = [replace(span, kind="waiting", detail="for others", meeting=None) for span in spans]
    return [*spans, *waits]


def error(worker, moment):
    return Span(worker, "error", "ValueError: boom", moment, moment, detail="in Cell 1")


MANY = timeline(
    Span(0, "cell", "Cell In[2]", 0.0, 8.0),
    Span(0, "call", "call f", 8.0, 9.0),
    Span(1, "copy", "get register #3", 1.0, 3.0),
    met(0, 1.0, 6.0),
    waiting(0, 1.0, 5.0),
    met(1, 5.0, 6.0),
    Span(1, "error", "ValueError: boom", 6.0, 6.0),
)
