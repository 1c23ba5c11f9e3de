"""Joins neighbouring `runner_output` events for a subscriber that lags. Pure; runs in the thread that read them.

Only output is joined: rows whose params differ in nothing but `revision`, `timestamp` and the text. The whole output is in the
run's own log file; what is left out here is said in the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from cueloop_daemon.events.model import Row

LONGEST_TEXT = 64 * 1024
"""Characters of text in a joint event, the marker not counted; escaped, it stays under the million that an event may have.
A single event is passed on as it is, whatever its size."""


class _Piece(NamedTuple):
    row: Row
    same: str | None
    """All that must agree between joined rows, as text; None if the row is not output."""
    text: str


def join_output(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The same rows in the same order, runs of output joined: a joint row has the seq, revision and time of its last one."""
    joined: list[Row] = []
    for same, pieces in groupby(map(_piece, rows), key=lambda piece: piece.same):
        run = list(pieces)
        if same is None or len(run) == 1:
            joined.extend(piece.row for piece in run)
        else:
            joined.append(_joint(run[-1].row, "".join(piece.text for piece in run)))
    return tuple(joined)


def _piece(row: Row) -> _Piece:
    if row.method != "event" or row.kind != "runner_output":
        return _Piece(row, None, "")
    try:
        params = json.loads(row.params)
        event = params["event"]
        text = event["payload"]["text"]
        if not isinstance(text, str):
            return _Piece(row, None, "")
        event["payload"]["text"] = ""
        event.pop("timestamp", None)
        params.pop("revision", None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _Piece(row, None, "")  # not the shape we know: passed on as it is
    return _Piece(row, json.dumps(params, sort_keys=True), text)


def _joint(last: Row, text: str) -> Row:
    left_out = len(text) - LONGEST_TEXT
    if left_out > 0:
        text = f"[{left_out} characters left out here; the log of the run has them]\n{text[left_out:]}"
    params = json.loads(last.params)
    params["event"]["payload"]["text"] = text
    return last._replace(params=json.dumps(params, separators=(",", ":")).encode())
