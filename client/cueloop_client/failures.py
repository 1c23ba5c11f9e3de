"""Why a command could not do what it was asked. Standard library only.

Each has a sentence for people and a word of the closed list for programs (contract section 7).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OK = 0
FAILED = 1
USAGE = 2
NOT_RUNNING = 3
INTERRUPTED = 130
"""128 and SIGINT, as shells count."""
CLOSED_PIPE = 141
"""128 and SIGPIPE: whoever read our output went away."""


class Failure(Exception):
    """The command failed: `message` and, where there is more to say, `detail` are plain sentences. The exit code is 1."""

    word = "unknown"
    exit_code = FAILED

    def __init__(self, message: str, detail: str | None = None, *, word: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        if word is not None:
            self.word = word

    def document(self) -> dict[str, Any]:
        """The error document, version 1, that `cueloop machine …` prints."""
        from cueloop_protocol.codes import error_document

        return error_document(self.word, self.message, self.detail)


class Usage(Failure):
    """The command line itself is wrong, or asks for what this version does not have: prose on stderr, exit code 2."""

    exit_code = USAGE


class Silent(Failure):
    """Somebody is there and did not answer in time. Slow is not dead: nothing was removed or started instead."""


class Lost(Failure):
    """The connection ended before the answer was complete, so it is unknown whether the request was carried out."""


class Unsent(Lost):
    """The connection ended before the request was with the daemon, whole: nothing was carried out."""


class Unreachable(Failure):
    """The machine of the repository, or the cueloop on it, cannot be reached; a second attempt would end in the same way."""

    word = "network_error"


class Unreached(Unreachable):
    """The machine of the repository cannot be reached now. Nothing was done there; later it may be."""


class Barred(Failure):
    """What stands there keeps a daemon from owning the repository."""

    word = "permission_denied"


class BadAnswer(Failure):
    """What came back is no answer to what was asked: not JSON-RPC, another id, or over the limit."""


class Stranger(Failure):
    """Somebody else listens where our daemon should be; nothing was sent to it."""

    word = "permission_denied"


class StartFailed(Failure):
    """The daemon could not be started; the message is its own reason."""


class NoDaemon(Failure):
    """No daemon runs here and this command may not start one."""


class Misfit(Failure):
    """The daemon and this command have no protocol version in common; here the daemon is the newer one."""

    word = "version_mismatch"


class Older(Misfit):
    """The daemon is the older one: this version's may replace it."""
