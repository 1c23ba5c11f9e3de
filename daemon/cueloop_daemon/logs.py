"""The daemon's log: one JSON object per line in a bounded set of files, and lines for people where somebody watches.

The rest of the daemon logs with the standard library: an event, then `key=%s` for each value, as in
`log.info("session written bytes=%d path=%s", size, path)`. Here that becomes members of the object, with the values as they are.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

FILES = 4
"""The current file and three older ones, `.1` the youngest. Together they stay within the limit."""

LONGEST_TEXT = 8 * 1024
"""Characters of one value, and of a traceback, of which the end is kept."""

REDACTED = "[REDACTED]"

_FIELD = re.compile(r"(?:^|\s)(\w+)=%(?:[-+0#]?[\d.]*[sdrfgixX])(?=\s|$)")
_PLACEHOLDER = re.compile(r"%(?!%)")
_SECRET_NAME = re.compile(r"secret|token|passw|authorization|cookie|api_?key|credential|^env$", re.IGNORECASE)
# Bounded or possessive throughout: a log line that takes a second to clean would be an outage of its own.
_SECRETS = (
    re.compile(
        r"((?:secret|token|passw|authorization|cookie|api[_-]?key|credential)[\w-]{0,40}+[\"']?\s{0,8}+[:=]\s{0,8}+)"
        r"(?:\"[^\"]*+\"|'[^']*+'|(?:(?:bearer|basic)\s{1,8}+)?[^\s,;&}\])]++)",
        re.IGNORECASE,
    ),
    re.compile(r"(\b(?:bearer|basic)\s{1,8}+)[\w.~+/=-]{8,}+", re.IGNORECASE),
    re.compile(r"(://[^/\s@:]{0,200}+:)[^/\s@]{0,200}+(?=@)"),
    re.compile(r"(\b)(?:sk|pk|ghp|gho|ghs|github_pat|glpat|xox[a-z])[-_][\w-]{12,}+"),
)
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_RESERVED = ("time", "level", "logger", "event", "traceback")


def redact(text: str) -> str:
    """`text` without what looks like a secret. A second net: secrets are not to be logged in the first place."""
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<1>{REDACTED}", text)
    return text


def event_of(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The event and its values. A message of another form is an event without values."""
    form = record.msg if isinstance(record.msg, str) else str(record.msg)
    fields = list(_FIELD.finditer(form))
    values = record.args if isinstance(record.args, tuple) else ()
    if not fields or not len(fields) == len(values) == len(_PLACEHOLDER.findall(form.replace("%%", ""))):
        return redact(_shortened(_message(record))), {}
    names = [field[1] for field in fields]
    return form[: fields[0].start()].replace("%%", "%").strip(), {
        name: _shown(name, value) for name, value in zip(names, values, strict=True)
    }


class JsonLines(logging.Formatter):
    """`{"time": …, "level": …, "logger": …, "event": …, <values>, "traceback": …}`; time is UTC with milliseconds."""

    def format(self, record: logging.LogRecord) -> str:
        event, values = event_of(record)
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("cueloop_daemon."),
            "event": event,
        }
        for name, value in values.items():
            line[f"{name}_" if name in _RESERVED else name] = value
        if record.exc_info and record.exc_info[1] is not None:
            line["traceback"] = _traceback(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True)


class Plain(logging.Formatter):
    """One line for people, `12:03:04 warning event key=value`, local time; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        event, values = event_of(record)
        when = datetime.fromtimestamp(record.created, UTC).astimezone()
        words = [f"{when:%H:%M:%S}", record.levelname.lower(), event, *(f"{name}={value}" for name, value in values.items())]
        line = " ".join(words).translate(_CONTROL)
        if record.exc_info and record.exc_info[1] is not None:
            line += "\n" + _traceback(record.exc_info[1]).rstrip()
        return line


class BoundedFiles(logging.Handler):
    """Appends to `path`, which becomes `path.1` and so on when it is full. What cannot be written is dropped, and never an error.

    The files are 0600 and no links are followed. A file that was removed is made again; a folder never is.
    """

    def __init__(self, path: str, limit: int, note: TextIO) -> None:
        """`limit`: bytes of all files together. `note`: where it is said, once, that the log cannot be written."""
        super().__init__()
        self.path = path
        self.limit = limit
        self.trouble: str | None = None
        """Why nothing is written at present, as a sentence."""
        self._note = note
        self._fd = -1
        self._size = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        line = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        try:
            self._write(line)
        except OSError as error:
            self._drop()
            self._say(f"The log {self.path} cannot be written: {error.strerror}. Going on without it.")
        else:
            self.trouble = None

    def close(self) -> None:
        """Close the file."""
        self.acquire()
        try:
            self._drop()
        finally:
            self.release()
        super().close()

    def _write(self, line: bytes) -> None:
        if not self._is_current():
            self._drop()
            self._fd = _open_log(self.path)
            self._size = os.fstat(self._fd).st_size
        if self._size and self._size + len(line) > self.limit // FILES:
            self._rotate()
        rest = memoryview(line)
        while rest:
            written = os.write(self._fd, rest)
            self._size += written
            rest = rest[written:]

    def _is_current(self) -> bool:
        if self._fd < 0:
            return False
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        self._drop()
        for number in range(FILES - 1, 0, -1):
            older = self.path if number == 1 else f"{self.path}.{number - 1}"
            with suppress(FileNotFoundError):
                os.replace(older, f"{self.path}.{number}")
        self._fd, self._size = _open_log(self.path), 0

    def _drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _say(self, trouble: str) -> None:
        if self.trouble is None:
            with suppress(OSError, ValueError):
                print(trouble, file=self._note, flush=True)
        self.trouble = trouble


class Logs:
    """The process's log, while it is entered. Libraries are heard from warnings on.

    Never fails: a log that cannot be written is said on stderr, once, and work goes on.
    """

    def __init__(self, path: str, level: str = "info", limit: int = 16 * 1024 * 1024, *, stderr: TextIO | None = None) -> None:
        """`level` is `debug`, `info`, `warning` or `error`; `limit`: bytes of all files; `stderr`: where people read along."""
        self._files = BoundedFiles(path, limit, stderr or sys.stderr)
        self._files.setFormatter(JsonLines())
        self._handlers: list[logging.Handler] = [self._files]
        if stderr is not None:
            plain = logging.StreamHandler(stderr)
            plain.setFormatter(Plain())
            self._handlers.append(plain)
        self._level = level

    @property
    def path(self) -> str:
        """The current file."""
        return self._files.path

    @property
    def trouble(self) -> str | None:
        """Why the log is not written at present; None if it is."""
        return self._files.trouble

    def set(self, level: str, limit: int) -> None:
        """Take changed settings, of the same meaning as those it was made with."""
        logging.getLogger("cueloop_daemon").setLevel(level.upper())
        self._files.limit = limit

    def __enter__(self) -> Logs:
        for handler in self._handlers:
            logging.getLogger().addHandler(handler)
        self.set(self._level, self._files.limit)
        return self

    def __exit__(self, *_: object) -> None:
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)
            handler.close()
        logging.getLogger("cueloop_daemon").setLevel(logging.NOTSET)


def _open_log(path: str) -> int:
    """A descriptor for appending. Raises OSError, also if `path` is no regular file; a FIFO does not block."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "it is not a regular file")
    return fd


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit: the log is no place to fail
        return f"{record.msg} {record.args!r}"


def _shown(name: str, value: object) -> object:
    if _SECRET_NAME.search(name):
        return REDACTED
    if value is None or isinstance(value, bool | int | float):
        return value
    try:
        text = str(value)
    except Exception:  # nor here
        text = f"<{type(value).__name__}>"
    return redact(_shortened(text))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… ({len(text)} characters)"


def _traceback(error: BaseException) -> str:
    text = "".join(traceback.TracebackException.from_exception(error, limit=50).format())
    return redact(text[-4 * LONGEST_TEXT :])[-LONGEST_TEXT:]
