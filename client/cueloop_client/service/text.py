"""What the commands of a service say: to people, and as JSON. Standard library only."""

from __future__ import annotations

from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cueloop_client.service.installing import Report
    from cueloop_client.service.looking import Look
    from cueloop_client.service.placing import Placed
    from cueloop_client.service.removing import Removed


def installed(report: Report) -> str:
    """What `install` did, and what is left to do."""
    lines = [f"{'The service works' if report.is_on else 'The service is written'}: {report.unit} ({report.manager})."]
    lines += [f"  {file.line()}" for file in report.files]
    lines += [f"  cleaned: the service of {shown(one.repository)}, which is not there any more" for one in report.cleaned]
    if report.left is not None:
        lines.append(f"  the daemon that ran here (process {report.left}) has left for it; a run of its goes on")
    lines += [f"  {one.line()}" for one in report.called]
    if report.out_of_reach is not None:
        lines += ["", report.out_of_reach, f"In a session that has one, switch the service on: {report.by_hand}"]
        lines.append("Until then everything works as before: commands start the daemon by themselves.")
    elif report.failure is not None:
        lines += ["", f"It does not work yet: {report.failure}", "Look further: cueloop service status, cueloop service logs"]
    else:
        lines.append(
            f"The daemon (process {report.pid}, version {report.version}) was started by the first request, and answers."
        )
    return "\n".join([*lines, *(["", *report.advice] if report.advice else [])])


def installed_json(report: Report) -> dict[str, Any]:
    """The same for programs."""
    return {
        "installed": True,
        "works": report.is_on,
        "manager": report.manager,
        "unit": report.unit,
        "files": _files(report.files),
        "commands": [{"argv": list(one.argv), "failure": one.failure} for one in report.called],
        "cleaned": [one.repository for one in report.cleaned],
        "replaced_pid": report.left,
        "pid": report.pid,
        "daemon_version": report.version,
        "problem": report.out_of_reach or report.failure,
        "remedy": report.by_hand if report.out_of_reach else None,
        "advice": list(report.advice),
    }


def removed(done: Removed, repository: str) -> str:
    """What `uninstall` did."""
    if not done.found:
        return f"There is no service for {shown(repository)}."
    kept = any(file.is_kept for file in done.files)
    lines = [f"The service {done.unit} is {'switched off' if kept else 'removed'}."]
    lines += [f"  {file.line()}" for file in done.files if file.done != "missing"]
    lines += [f"  {one.line()}" for one in done.called]
    if done.out_of_reach is not None:
        lines += ["", f"{done.out_of_reach} What it has loaded goes when it starts again."]
    return "\n".join([*lines, "Commands start the daemon by themselves again; a run goes on, and the next daemon takes it over."])


def removed_json(done: Removed) -> dict[str, Any]:
    """The same for programs."""
    return {
        "installed": any(file.is_kept for file in done.files),
        "found": done.found,
        "unit": done.unit,
        "files": _files(done.files),
        "commands": [{"argv": list(one.argv), "failure": one.failure} for one in done.called],
        "problem": done.out_of_reach,
    }


def looked(found: Look, repository: str) -> str:
    """What `status` says."""
    if found.found is None:
        lines = [
            f"There is no service for {shown(repository)}: commands start the daemon by themselves.",
            "Make one: cueloop service install",
        ]
    else:
        rows = [("unit", found.unit), *(found.state.details if found.state else ()), *_program(found), ("daemon", _daemon(found))]
        lines = [f"The daemon of {shown(repository)} is a service of {found.manager}."]
        lines += [f"  {name:<12}  {value}" for name, value in rows if value]
        lines += [f"  {'file':<12}  {shown(path)}: {state}" for path, state in found.files]
    for what, remedy in found.problems:
        lines += ["", what, remedy]
    for path in found.gone:
        lines += [
            "",
            f"The service of {shown(path)} has lost its repository.",
            f"Remove it: cueloop service uninstall --repo {_word(path)}",
        ]
    return "\n".join([*lines, *(["", *found.advice] if found.advice else [])])


def looked_json(found: Look) -> dict[str, Any]:
    """The same for programs."""
    state = found.state
    return {
        "installed": found.found is not None,
        "manager": found.manager,
        "unit": found.unit,
        "enabled": state.is_enabled if state else None,
        "listening": state.is_listening if state else None,
        "running": state.is_running if state else None,
        "pid": state.pid if state else None,
        "details": dict(state.details) if state else {},
        "interpreter": {"path": found.program, "version": found.version} if found.found else None,
        "files": [{"path": path, "state": word} for path, word in found.files],
        "daemon": found.daemon,
        "problems": [{"message": what, "remedy": remedy} for what, remedy in found.problems],
        "advice": list(found.advice),
        "gone": list(found.gone),
    }


def _program(found: Look) -> list[tuple[str, str]]:
    if found.program is None:
        return []
    return [("interpreter", f"{shown(found.program)}, {f'version {found.version}' if found.version else 'not usable'}")]


def _daemon(found: Look) -> str:
    daemon = found.daemon
    if daemon is None:
        return "none runs just now; the next command starts it"
    return f"process {daemon.get('pid', '?')}, {daemon.get('state', '?')}, started by {daemon.get('origin', 'an older version')}"


def _files(files: Sequence[Placed]) -> list[dict[str, str]]:
    return [{"path": file.path, "done": file.done} for file in files]


def _word(path: str) -> str:
    from shlex import quote

    return quote(path)
