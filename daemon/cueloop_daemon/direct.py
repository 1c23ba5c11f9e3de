"""The reading methods answered in the caller's own process: for `--no-daemon`, and where no daemon may be started.

The same loading, the same core and the same answers as in the daemon; nothing is created, locked or left running.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from cueloop_daemon import answers
from cueloop_daemon.core.model import Snapshot
from cueloop_daemon.runs.active import read_active
from cueloop_daemon.runs.owed_file import read_owed
from cueloop_daemon.store.git import Git
from cueloop_daemon.workspace.files import FileCache
from cueloop_daemon.workspace.loading import Loader, QueueCache, session_path
from cueloop_daemon.workspace.view import Dirt, snapshot_of
from cueloop_protocol import codes
from cueloop_protocol.base import problems, to_json_bytes
from cueloop_protocol.methods import METHODS
from cueloop_protocol.params import NoParams, PreviewParams, ResolveParams, SessionGetParams
from cueloop_protocol.roots import Caller, Root, shown


def answer(method: str, params: Mapping[str, object], root: Root, caller: Caller) -> dict[str, Any]:
    """The result of a reading method, as plain JSON values. Raises RpcError, also for a method that needs the daemon."""
    respond = _METHODS.get(method)
    if respond is None:
        raise codes.RpcError(codes.METHOD_NOT_FOUND, f"{method} needs the daemon.", detail="Call it without --no-daemon.")
    try:
        asked = METHODS[method].params.model_validate(dict(params))
    except ValidationError as exc:
        raise codes.invalid_params(problems(exc)) from exc
    result: dict[str, Any] = from_json(respond(asked, root, caller))
    return result


def _facts(root: Root, caller: Caller) -> Snapshot:
    loader = Loader(root, FileCache(time.time_ns), QueueCache(time.time_ns), time.time_ns)
    loaded = loader.load(caller)
    dirt = Dirt(Git(os.environ).is_dirty_sync(root, caller), datetime.now(UTC), 0.0)
    return snapshot_of(loaded, dirt, read_active(root), 0, read_owed(root))


def _resolve(params: BaseModel, root: Root, caller: Caller) -> bytes:
    assert isinstance(params, ResolveParams)
    now = datetime.now(UTC)
    body = answers.config_resolve(_facts(root, caller), now, task_id=params.task_id, resume=params.resume)
    return answers.with_moment(body, now)


def _overview(params: BaseModel, root: Root, caller: Caller) -> bytes:
    assert isinstance(params, ResolveParams)
    now = datetime.now(UTC)
    body = answers.workspace_overview(_facts(root, caller), now, task_id=params.task_id, resume=params.resume)
    return answers.with_moment(body, now)


def _session(params: BaseModel, root: Root, caller: Caller) -> bytes:
    assert isinstance(params, SessionGetParams)
    result = answers.session_get(_facts(root, caller), datetime.now(UTC), shown(session_path(Root(root.path, root.path))))
    return to_json_bytes(result)


def _preview(params: BaseModel, root: Root, caller: Caller) -> bytes:
    assert isinstance(params, PreviewParams)
    return to_json_bytes(answers.resume_preview(_facts(root, caller), datetime.now(UTC), params.request))


def _dump(params: BaseModel, root: Root, caller: Caller) -> bytes:
    """What can be told of a daemon from outside: of one that is dead, or hangs."""
    from cueloop_daemon.dump.without import dump_without_daemon

    return dump_without_daemon(root, caller, os.environ, datetime.now(UTC))


def _ping(params: BaseModel, root: Root, caller: Caller) -> bytes:
    assert isinstance(params, NoParams)
    return b"{}"


_METHODS: Mapping[str, Callable[[BaseModel, Root, Caller], bytes]] = {
    "ping": _ping,
    "config.resolve": _resolve,
    "workspace.overview": _overview,
    "session.get": _session,
    "resume.preview": _preview,
    "daemon.dump": _dump,
}


def doctor(asked: Mapping[str, object], root: Root, caller: Caller, environ: Mapping[str, str], home: str) -> dict[str, Any]:
    """What is wrong here, as the doctor document: `asked` is what the command knows (`cueloop_daemon.doctor.asked`).

    `home` is that of the user's passwd entry. Writes nothing, starts no daemon, raises nothing for what the repository is.
    """
    from cueloop_daemon.doctor import doctor as visit
    from cueloop_daemon.doctor.asked import Asked

    told = Asked.model_validate(dict(asked))
    return visit(root, caller, os.getuid(), environ, home, told).model_dump(mode="json")
