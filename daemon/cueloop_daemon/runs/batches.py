"""The journal of a run in `runs.db`: loading it for a life, and writing its batches. Functions of a connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from pydantic_core import to_json

from cueloop_daemon.runs.records import Batch, Checkpoint, Conversation, Held, Loaded, Out, Over, Record
from cueloop_daemon.runs.state import STATE, State


def load(db: sqlite3.Connection, run_id: str, instead: State | None = None) -> Loaded:
    """What a life that begins now finds; `instead`: where it begins in place of what is stored.

    LookupError: there is no such run. ValueError: what is stored is not as this version writes it.
    """
    row = db.execute("SELECT checkpoint, next_order, stop_at, cancel_at, lives FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise LookupError(run_id)
    state, next_order, stop_at, cancel_at, lives = row
    steps = [Record(*step) for step in db.execute(_STEPS, (run_id,))]
    records = [record for record in steps if record.idx >= 0]
    if instead is None:
        STATE.validate_json(state)
    else:
        state, next_order, records = STATE.dump_json(instead), next_order + len(records) + 1, []
    if [record.idx for record in records] != list(range(len(records))):
        raise ValueError(f"the steps of run {run_id} have a hole")
    return Loaded(
        run_id=run_id,
        state=state,
        next_order=next_order,
        records=records,
        told=frozenset(record.key for record in steps if record.idx < 0),
        is_first_life=lives == 0,
        stop_wanted=stop_at is not None,
        cancelled=cancel_at is not None,
    )


_STEPS = "SELECT idx, key, kind, intent, result FROM steps WHERE run_id = ? ORDER BY idx"


def write(db: sqlite3.Connection, run_id: str, batch: Batch) -> None:
    """Write a batch, in its order. LookupError: the run is over or gone; nothing may be written about it."""
    if not _is_open(db, run_id):
        raise LookupError(run_id)
    if batch.checkpoint is not None:
        _checkpoint(db, run_id, batch.checkpoint)
    db.executemany("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?)", [(run_id, *record) for record in batch.records])
    db.executemany(
        "UPDATE steps SET result = ? WHERE run_id = ? AND idx = ?", [(made, run_id, idx) for idx, made in batch.results]
    )
    say(db, run_id, batch.out)
    for conversation in batch.conversations:
        keep_conversation(db, run_id, conversation)
    # What was written is progress: a life that came so far is no life that failed at once.
    db.execute("UPDATE runs SET view = coalesce(?, view), lives = min(lives, 1) WHERE run_id = ?", (batch.view, run_id))
    if batch.restart is not None:
        _restart(db, run_id, batch.restart)
    if batch.over is not None:
        end(db, run_id, batch.over)


def say(db: sqlite3.Connection, run_id: str, out: Sequence[Out]) -> None:
    """Put events at the end of the outbox."""
    if not out:
        return
    first = db.execute("SELECT next_ordinal FROM runs WHERE run_id = ?", (run_id,)).fetchone()[0]
    db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", [(run_id, first + i, *one) for i, one in enumerate(out)])
    db.execute("UPDATE runs SET next_ordinal = ? WHERE run_id = ?", (first + len(out), run_id))


def end(db: sqlite3.Connection, run_id: str, over: Over) -> None:
    """The run is over: its questions are resolved, `run.finished` is the last thing that it says."""
    open_questions = db.execute(
        "SELECT question_id, fallback FROM questions WHERE run_id = ? AND answered_at IS NULL ORDER BY question_id", (run_id,)
    ).fetchall()
    db.execute(
        "UPDATE questions SET choice = fallback, by = 'run_over', answered_at = ? WHERE run_id = ? AND answered_at IS NULL",
        (over.at, run_id),
    )
    say(db, run_id, [resolved(run_id, question, choice, "run_over") for question, choice in open_questions])
    say(db, run_id, [over.finished])
    db.execute(
        "UPDATE runs SET state = 'over', summary = ?, error = ?, finished_at = ? WHERE run_id = ?",
        (over.summary, over.error, over.at, run_id),
    )
    db.execute("DELETE FROM steps WHERE run_id = ?", (run_id,))


def end_open(
    db: sqlite3.Connection, run_id: str, over: Over, said: Sequence[Out] = (), heard: Conversation | None = None
) -> bool:
    """As `end`, after a few last events; False, and nothing done, if the run is over already or is not here.

    `heard`: a conversation that was found out after the run had ended.
    """
    if not _is_open(db, run_id):
        return False
    if heard is not None:
        keep_conversation(db, run_id, heard)
    say(db, run_id, said)
    end(db, run_id, over)
    return True


def _is_open(db: sqlite3.Connection, run_id: str) -> bool:
    return db.execute("SELECT 1 FROM runs WHERE run_id = ? AND state = 'open'", (run_id,)).fetchone() is not None


def resolved(run_id: str, question_id: str, choice: str, by: str) -> Out:
    """`question.resolved` as it is told."""
    body = {"run_id": run_id, "question_id": question_id, "choice": choice, "by": by}
    return Out("question.resolved", None, to_json(body))


def held(db: sqlite3.Connection, limit: int) -> list[Held]:
    """The front of the outbox: the oldest run's events first, each in order."""
    found = db.execute(
        "SELECT outbox.run_id, ordinal, method, kind, params FROM outbox JOIN runs USING (run_id) ORDER BY seq, ordinal LIMIT ?",
        (limit,),
    )
    return [Held(run_id, ordinal, Out(method, kind, params)) for run_id, ordinal, method, kind, params in found]


def speakers(db: sqlite3.Connection) -> frozenset[str]:
    """Runs of which something waits in the outbox."""
    return frozenset(str(run_id) for (run_id,) in db.execute("SELECT DISTINCT run_id FROM outbox"))


def forget(db: sqlite3.Connection, upto: Mapping[str, int]) -> None:
    """These were told: run → its last ordinal."""
    db.executemany("DELETE FROM outbox WHERE run_id = ? AND ordinal <= ?", upto.items())


def keep_conversation(db: sqlite3.Connection, run_id: str, one: Conversation) -> None:
    """Remember it; another one that stood there before goes to the end of `former`, so that the chain is kept."""
    place = one[:5]
    kept = db.execute(f"SELECT body, former FROM conversations WHERE {_PLACE}", place).fetchone()
    former = "" if kept is None else kept[1]
    if kept is not None and kept[0] != one.body:
        former = f"{former}{kept[0]}\n"
    db.execute("REPLACE INTO conversations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*one, former, run_id))


def find_conversation(db: sqlite3.Connection, place: tuple[str, str, int, int, str]) -> str | None:
    """The conversation to continue, as JSON; None if there is none, or it is known to be gone."""
    found = db.execute(f"SELECT body, state FROM conversations WHERE {_PLACE}", place).fetchone()
    return None if found is None or found[1] == "gone" else str(found[0])


def forget_worked_in(db: sqlite3.Connection, task_id: str, run_id: str) -> None:
    """The task's session in which this run has worked is over for good: nobody goes on with its conversations."""
    db.execute(
        "DELETE FROM conversations WHERE task_id = ? AND session_id IN"
        " (SELECT session_id FROM conversations WHERE task_id = ? AND run_id = ?)",
        (task_id, task_id, run_id),
    )


def forget_left(db: sqlite3.Connection, task_id: str | None) -> None:
    """Forget the conversations of runs that are not kept any more; those of `task_id`, which is in the session, stay."""
    db.execute(
        "DELETE FROM conversations WHERE task_id IS NOT ? AND run_id NOT IN (SELECT run_id FROM runs)",
        (task_id,),
    )


_PLACE = "task_id = ? AND session_id = ? AND iteration = ? AND phase = ? AND runner = ?"


def _restart(db: sqlite3.Connection, run_id: str, next_order: int) -> None:
    db.execute("DELETE FROM steps WHERE run_id = ? AND idx >= 0 AND kind <> 'E'", (run_id,))
    lowest = db.execute("SELECT min(idx, 0) FROM (SELECT min(idx) AS idx FROM steps WHERE run_id = ?)", (run_id,)).fetchone()[0]
    kept = db.execute("SELECT idx FROM steps WHERE run_id = ? AND idx >= 0 ORDER BY idx", (run_id,)).fetchall()
    for place, (idx,) in enumerate(kept, 1):
        db.execute("UPDATE steps SET idx = ? WHERE run_id = ? AND idx = ?", ((lowest or 0) - place, run_id, idx))
    db.execute("UPDATE runs SET next_order = ? WHERE run_id = ?", (next_order, run_id))


def _checkpoint(db: sqlite3.Connection, run_id: str, checkpoint: Checkpoint) -> None:
    db.execute("DELETE FROM steps WHERE run_id = ?", (run_id,))
    db.execute(
        "UPDATE runs SET checkpoint = ?, scope = scope + 1, next_order = ? WHERE run_id = ?",
        (checkpoint.state, checkpoint.next_order, run_id),
    )
