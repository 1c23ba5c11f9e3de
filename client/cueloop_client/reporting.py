"""How a failure is told: one error document for programs, plain sentences for people, an exit code. Standard library only."""

from __future__ import annotations

import os
from contextlib import suppress

from cueloop_client.context import encoded
from cueloop_client.failures import CLOSED_PIPE, FAILED, INTERRUPTED, Failure, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.world import World


def report(exc: BaseException, world: World, *, machine: bool, verbose: bool) -> int:
    """Say on standard error what went wrong and give the exit code. A closed standard error changes nothing.

    `machine`: exactly one error document and no prose, except for wrong usage, which is always prose (contract section 7).
    `verbose`: an unforeseen exception is shown with its traceback.
    """
    if isinstance(exc, SystemExit):
        raise exc
    if isinstance(exc, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(exc, BrokenPipeError):
        return CLOSED_PIPE
    failure = as_failure(exc)
    with suppress(OSError):
        if machine and not isinstance(failure, Usage):
            world.write(2, _pretty(failure.document()))
        else:
            world.write(2, encoded(prose(failure)))
        if verbose and failure.__cause__ is not None and not machine:
            world.write(2, encoded(_traceback(exc)))
    return failure.exit_code


def as_failure(exc: BaseException) -> Failure:
    """The failure that an exception means: ours as it is, an RPC error by its document, a system error by its sentence."""
    from cueloop_protocol.codes import RpcError
    from cueloop_protocol.roots import RootError, shown

    failure: Failure
    if isinstance(exc, Failure):
        return exc
    if isinstance(exc, RpcError):
        return told_by_daemon(exc)
    if isinstance(exc, RootError):
        failure = Failure(f"{str(exc)[:1].upper()}{str(exc)[1:]}.")
    elif isinstance(exc, OSError):
        where = f"{shown(os.fsdecode(exc.filename))}: " if isinstance(exc.filename, str | bytes) else ""
        word = "permission_denied" if isinstance(exc, PermissionError) else "unknown"
        failure = Failure(f"{where}{exc.strerror or exc}.", word=word)
    else:
        failure = Failure(
            f"This is a mistake in cueloop itself: {type(exc).__name__}: {exc}",
            "Call it again with -v for the place, and please report it.",
        )
    failure.__cause__ = exc
    return failure


def told_by_daemon(error: Any) -> Failure:
    """The failure that the daemon's error document describes; an unknown method names the two versions' remedy."""
    from cueloop_protocol.codes import METHOD_NOT_FOUND

    document = error.document
    if error.code == METHOD_NOT_FOUND:
        return Failure(
            "The daemon that runs here does not know this command.",
            "It is of another version than this one: replace it with `cueloop daemon restart`.",
            word="version_mismatch",
        )
    return Told(document)


class Told(Failure):
    """An error document that came from the daemon, kept as it is."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__(str(document["message"]), document.get("detail"), word=str(document["code"]))
        self._document = document

    def document(self) -> dict[str, Any]:
        """The document as it came."""
        return self._document


def prose(failure: Failure) -> str:
    """`cueloop: message`, and the detail below it."""
    text = f"cueloop: {failure.message}\n"
    return f"{text}{failure.detail}\n" if failure.detail else text


def _pretty(document: dict[str, Any]) -> bytes:
    import json

    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def _traceback(exc: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(exc))


__all__ = ["FAILED", "Told", "as_failure", "prose", "report", "told_by_daemon"]
