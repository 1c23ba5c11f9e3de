"""The tables of `runs.db`."""

from __future__ import annotations

APPLICATION_ID = 0x43754552
"""Marks the file as ours ("CuER")."""

VERSION = 1
"""`user_version` of what we write. A file with a higher one is left alone."""

RECORD = 1
"""How runs are recorded: keys of steps, the state, what results hold. Raised when another version's runs cannot be gone on with."""

SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # state: open or over. request, view, summary, error: JSON. lives: daemons that began to carry the run since anything new was
    # written about it; above 0 it was begun by another one.
    "CREATE TABLE runs (run_id TEXT PRIMARY KEY, seq INTEGER NOT NULL UNIQUE, state TEXT NOT NULL, mode TEXT NOT NULL,"
    " request BLOB NOT NULL, idempotency_key TEXT UNIQUE, digest TEXT NOT NULL, boot_id TEXT NOT NULL, started_at TEXT NOT NULL,"
    " cursor TEXT NOT NULL, scope INTEGER NOT NULL, checkpoint BLOB NOT NULL, next_order INTEGER NOT NULL,"
    " next_ordinal INTEGER NOT NULL, lives INTEGER NOT NULL, stop_at TEXT, cancel_at TEXT, view BLOB, finished_at TEXT,"
    " summary BLOB, error BLOB)",
    "CREATE UNIQUE INDEX one_open ON runs (state) WHERE state = 'open'",
    # idx below 0: an event of a reading of the scope that was given up; matched by key.
    "CREATE TABLE steps (run_id TEXT NOT NULL, idx INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL, intent BLOB,"
    " result BLOB, PRIMARY KEY (run_id, idx)) WITHOUT ROWID",
    "CREATE TABLE outbox (run_id TEXT NOT NULL, ordinal INTEGER NOT NULL, method TEXT NOT NULL, kind TEXT, params BLOB NOT NULL,"
    " PRIMARY KEY (run_id, ordinal)) WITHOUT ROWID",
    "CREATE TABLE children (run_id TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, out INTEGER, err INTEGER,"
    " code INTEGER, signal INTEGER, cause TEXT, PRIMARY KEY (run_id, number)) WITHOUT ROWID",
    "CREATE TABLE questions (question_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, body BLOB NOT NULL, expires_at TEXT NOT NULL,"
    " fallback TEXT NOT NULL, choice TEXT, text TEXT, by TEXT, answered_at TEXT) WITHOUT ROWID",
    "CREATE TABLE conversations (task_id TEXT NOT NULL, session_id TEXT NOT NULL, iteration INTEGER NOT NULL,"
    " phase INTEGER NOT NULL, runner TEXT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, former TEXT NOT NULL, run_id TEXT,"
    " PRIMARY KEY (task_id, session_id, iteration, phase, runner)) WITHOUT ROWID",
    "CREATE TABLE owed (task_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE last_session (one INTEGER PRIMARY KEY CHECK (one = 1), run_id TEXT NOT NULL, etags BLOB NOT NULL)",
)
