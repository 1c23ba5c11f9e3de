"""Every method: what it takes, what it gives, what may go wrong. Handlers and reference are checked against this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cueloop_protocol import codes, dump_results, params, results, run_results
from cueloop_protocol.base import Wire

ALWAYS = (codes.INVALID_PARAMS, codes.INTERNAL_ERROR, codes.CANCELLED, codes.SHUTTING_DOWN)
"""Errors that any method may answer with."""


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One method. `errors` are its own, beside `ALWAYS`. `is_planned`: answered with "not in this version" so far."""

    params: type[Wire]
    result: type[Wire]
    summary: str
    errors: tuple[int, ...] = ()
    is_planned: bool = False


_TO_START = (
    codes.DOCUMENT_UNUSABLE,
    codes.CONFIRMATION_REQUIRED,
    codes.CONFIRMATION_STALE,
    codes.RUN_ACTIVE,
    codes.CONFLICT,
    codes.RUNNER_UNAVAILABLE,
    codes.NOT_WRITABLE,
)
_TO_CLEAR = (codes.DOCUMENT_UNUSABLE, codes.RUN_ACTIVE, codes.CONFLICT, codes.LOCK_HELD, codes.NOT_WRITABLE)

METHODS: Mapping[str, MethodSpec] = MappingProxyType(
    {
        "hello": MethodSpec(
            params.HelloParams,
            results.HelloResult,
            "Agree on a protocol version and learn who the daemon is. Optional for clients that only read.",
            (codes.VERSION_MISMATCH,),
        ),
        "ping": MethodSpec(params.NoParams, results.Nothing, "Answer at once."),
        "config.resolve": MethodSpec(
            params.ResolveParams,
            results.ResolveResult,
            "The resolved configuration, what is allowed to run, and what the next run would do about an interrupted session.",
            (codes.DOCUMENT_UNUSABLE,),
        ),
        "workspace.overview": MethodSpec(
            params.ResolveParams,
            results.OverviewResult,
            "Queue, runnability and configuration of one moment.",
            (codes.DOCUMENT_UNUSABLE,),
        ),
        "session.get": MethodSpec(
            params.SessionGetParams,
            results.SessionGetResult,
            "What the session file is. A damaged one is an answer, not an error.",
        ),
        "session.clear": MethodSpec(
            params.SessionClearParams,
            results.SessionClearResult,
            "Abandon the session: its file is moved to the history, if it still is the one that `etag` names.",
            _TO_CLEAR,
        ),
        "resume.preview": MethodSpec(
            params.PreviewParams,
            results.PreviewResult,
            "The decision that a run with this request would start with. Changes nothing.",
            (codes.DOCUMENT_UNUSABLE,),
        ),
        "run.start": MethodSpec(
            params.RunStartParams,
            run_results.RunStartResult,
            "Start a run. Where a person must decide and can be asked, nothing happens but `confirmation_required`.",
            _TO_START,
        ),
        "run.answer": MethodSpec(
            params.RunAnswerParams,
            run_results.RunAnswerResult,
            "Answer a question that a run asks in the middle. The first answer counts.",
            (codes.NO_SUCH_RUN, codes.CONFLICT),
        ),
        "run.stop": MethodSpec(
            params.RunTargetParams,
            run_results.RunStopResult,
            "Stop after the current task.",
            (codes.NO_SUCH_RUN,),
        ),
        "run.cancel": MethodSpec(
            params.RunTargetParams,
            run_results.RunCancelResult,
            "Stop now. Answered when no process of the run is left.",
            (codes.NO_SUCH_RUN,),
        ),
        "run.get": MethodSpec(params.RunGetParams, run_results.RunGetResult, "One run.", (codes.NO_SUCH_RUN,)),
        "run.list": MethodSpec(params.RunListParams, run_results.RunListResult, "The history of runs.", (codes.NO_SUCH_RUN,)),
        "run.output": MethodSpec(
            params.RunOutputParams,
            run_results.RunOutputResult,
            "A piece of a run's output.",
            (codes.NO_SUCH_RUN,),
        ),
        "events.subscribe": MethodSpec(
            params.SubscribeParams,
            results.SubscribeResult,
            "Receive what happens from a cursor on, as notifications on this connection; the answer comes before the first.",
        ),
        "events.unsubscribe": MethodSpec(
            params.UnsubscribeParams, results.UnsubscribeResult, "End a subscription. No notification of it follows the answer."
        ),
        "client.state": MethodSpec(
            params.ClientStateParams,
            results.Nothing,
            "Say what this client's person can see. Forgotten when the connection ends.",
        ),
        "daemon.status": MethodSpec(params.NoParams, results.StatusResult, "The daemon's health and counters."),
        "daemon.dump": MethodSpec(
            params.NoParams,
            dump_results.DumpResult,
            "What helps to find out what is wrong with the daemon, without what is a person's own. At most 1 MiB.",
        ),
        "daemon.shutdown": MethodSpec(
            params.ShutdownParams, results.ShutdownResult, "Drain and leave. Answered before it happens.", (codes.RUN_ACTIVE,)
        ),
        "daemon.handover": MethodSpec(
            params.HandoverParams,
            results.HandoverResult,
            "Give socket and locks to a successor, and leave. For daemons: `cueloop daemon restart` starts one that asks.",
            (codes.RUN_ACTIVE, codes.VERSION_MISMATCH, codes.CONFLICT),
        ),
        "rpc.discover": MethodSpec(params.NoParams, results.DiscoverResult, "This protocol as an OpenRPC document."),
    }
)
"""Method name → its specification, in the order of the reference."""
