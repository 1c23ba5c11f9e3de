"""The end of a run, and what it says, as rows of its record."""

from __future__ import annotations

from pydantic_core import to_json

from cueloop_daemon.core.runs import ends
from cueloop_daemon.runs.records import Out, Over
from cueloop_daemon.runs.state import Ending, State
from cueloop_protocol.documents.envelope import Event, event_bytes
from cueloop_protocol.documents.error import ErrorDocument
from cueloop_protocol.documents.summary import Summary


def told(run_id: str, event: Event) -> Out:
    """An event of the run as it is told, but for its revision."""
    return Out("event", event.kind, b'{"run_id":%b,"origin":"run","event":%b}' % (to_json(run_id), event_bytes(event)))


def over_with(run_id: str, state: State, at: str) -> Over:
    """The end of a run as its last state has it. ValueError: the state has no ending."""
    ending = state.ending
    if ending is None:
        raise ValueError("a run is over only with an ending")
    return over(run_id, summary_of(ending), ending.error, at)


def summary_of(ending: Ending) -> Summary:
    """The summary of a run that ends so."""
    return Summary(task_id=ending.task_id, exit_code=ending.exit_code, outcome=ending.outcome, blocking=ending.blocking)


def over(run_id: str, summary: Summary, error: ErrorDocument | None, at: str) -> Over:
    """The end of a run at `at` (RFC 3339): what its record keeps, and `run.finished`."""
    said = to_json(summary)
    why = None if error is None else to_json(error)
    tail = b"" if why is None else b',"error":%b' % why
    return Over(at, said, why, Out("run.finished", None, b'{"run_id":%b,"summary":%b%b}' % (to_json(run_id), said, tail)))


def failure(message: str, code: str = "unknown", detail: str | None = None) -> Ending:
    """The run has failed, for this reason; `code` is an error document's."""
    return Ending(outcome="failed", exit_code=1, error=ends.error(code, message, detail))


def ends_without_program(cancelled: bool, why: str, detail: str | None) -> tuple[Summary, ErrorDocument | None]:
    """A run that ends without its program: as it was to end, if it was being cancelled."""
    if cancelled:
        return Summary(task_id=None, exit_code=0, outcome="stopped"), None
    ending = failure(why, detail=detail)
    return summary_of(ending), ending.error
