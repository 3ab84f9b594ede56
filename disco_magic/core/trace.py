"""A timeline as trace events: the JSON that chrome://tracing and https://ui.perfetto.dev open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.core.timeline import Span, Timeline

# Colour names of the trace viewer.
_COLOURS: Final[Mapping[str, str]] = {
    "cell": "thread_state_running",
    "call": "thread_state_runnable",
    "calls": "thread_state_runnable",
    "copy": "rail_load",
    "span": "generic_work",
    "collective": "rail_response",
    "waiting": "thread_state_iowait",
}


def trace_of(timeline: Timeline) -> dict[str, Any]:
    """Trace events of a timeline's window: a process for the session, a thread per worker."""
    session = timeline.session_id
    events = [_named("process_name", session, 0, name=f"Disco session {session}")]
    for worker in timeline.workers:
        events.append(_named("thread_name", session, worker, name=f"worker {worker}"))
        events.append(_named("thread_sort_index", session, worker, sort_index=worker))
    for worker in timeline.workers:
        events += [_event(session, span) for span in timeline.lane(worker)]
    dropped = {str(worker): timeline.dropped[worker] for worker in timeline.workers}
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"session": session, "workers": timeline.num_workers, "dropped spans": dropped},
    }


def _named(event: str, session: int, worker: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": event, "pid": session, "tid": worker, "args": args}


def _event(session: int, span: Span) -> dict[str, Any]:
    """Times are in microseconds; rounding both ends to the nanosecond keeps nested events nested."""
    start, end = round(span.start_s * 1e6, 3), round(span.end_s * 1e6, 3)
    args: dict[str, Any] = {"label": span.label}
    if span.site:
        args["site"] = span.site
    if span.detail:
        args["detail"] = span.detail
    if span.unfinished:
        args["unfinished"] = True
    event = {
        "name": span.label,
        "cat": span.kind,
        "ts": start,
        "pid": session,
        "tid": span.worker,
        "args": args,
    }
    if span.kind == "error":
        return {**event, "ph": "i", "s": "t"}
    name = f"waiting in {span.label}" if span.kind == "waiting" else span.label
    return {**event, "name": name, "ph": "X", "dur": round(end - start, 3), "cname": _COLOURS[span.kind]}


def write_trace(timeline: Timeline, path: str | Path) -> None:
    """Write the trace events of a timeline to a file."""
    import json

    file = Path(path)
    if file.is_dir():
        raise UsageMistake(f"timeline: {file} is a directory; expected the name of a file, e.g. trace.json")
    text = json.dumps(trace_of(timeline))
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageMistake(
            f"timeline: {file} cannot be written: {error.strerror}; choose a file in a directory that exists "
            "and that you may write to"
        ) from error
