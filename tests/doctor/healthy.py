"""Healthy repositories of many shapes: `python tests/doctor/healthy.py 1000` visits so many, and says what was wrongly found.

Each number has its own shape, always the same. Whatever a person may rightly have is somewhere among them.
"""

from __future__ import annotations

import json
import random
import sys
from datetime import timedelta
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cueloop_daemon.runs.db import RunsPlace, open_runs
from cueloop_protocol.documents.doctor import DoctorDocument
from doctor.lab import AGENTS, Lab, codes, laboratory
from support.repository import STAMP, git, session, task

WITH_DAEMON, BY_COMMAND = 25, 50
"""Each so-manieth has a real daemon, or is visited by the real command line."""
TITLES = ("Fix it", "Größe prüfen", "Ein \"Wort\" // kein Kommentar", "数える", "x" * 300, "a: b, c}")  # fmt: skip


def lay(lab: Lab, number: int) -> None:
    """Make the repository of this number."""
    chance = random.Random(number)
    tasks = _tasks(chance)
    _write(lab.repository.queue, {"version": 1, "tasks": tasks}, chance)
    if chance.random() < 0.5:
        finished = [task(9000 + n, "done", completed_at=STAMP) for n in range(chance.randrange(30))]
        _write(lab.repository.folder / "done.jsonc", {"version": 1, "tasks": finished}, chance)
    doing = [str(one["id"]) for one in tasks if one["status"] == "doing"]
    if doing and chance.random() < 0.6:
        age = timedelta(minutes=chance.choice((0, 1, 59, 600, 1430)))
        data = session(age, task_id=doing[0], current_phase=chance.randint(1, 3), max_tasks=chance.choice((0, 1, 10)))
        lab.repository.session.write_bytes(data + (b"\n// kept by hand\n" if chance.random() < 0.3 else b""))
    _configure(lab, chance)
    _leave_traces(lab, chance)
    git(lab.repository.path, "add", "-A")
    git(lab.repository.path, "commit", "-qm", "more", "--allow-empty")


def visit(number: int) -> DoctorDocument:
    """What the doctor finds in the repository of this number."""
    with laboratory() as lab:
        lay(lab, number)
        lab.asked["with_agents"] = number % 3 == 0
        if number % WITH_DAEMON == 0:
            lab.world.start(at_home=True)
        if number % BY_COMMAND != 1:
            return lab.visit()
        done = lab.world.run("doctor", "--json")
        document = DoctorDocument.model_validate(json.loads(done.stdout))
        assert (done.returncode, done.stderr) == (0 if document.healthy else 1, b"")
        return document


def _tasks(chance: random.Random) -> list[dict[str, object]]:
    """Up to some hundred, in all states, waiting for each other without circles."""
    tasks: list[dict[str, object]] = []
    for number in range(1, 1 + chance.choice((0, 1, 2, 5, 20, 300))):
        status = chance.choice(("todo", "todo", "doing", "draft", "done", "rejected"))
        more: dict[str, object] = {"title": chance.choice(TITLES)}
        if status in ("done", "rejected"):
            more["completed_at"] = STAMP
        if tasks and chance.random() < 0.4:
            more["depends_on"] = [chance.choice(tasks)["id"]]
        if chance.random() < 0.1:
            more["scheduled_start"] = "2099-01-01T00:00:00Z"
        if chance.random() < 0.2:
            more |= {"tags": ["a", "b"], "custom_fields": {"points": 3, "hot": True}, "agent": {"runner": "claude", "phases": 1}}
        tasks.append(task(number, status, **more))
    return tasks


def _write(path: Path, value: object, chance: random.Random) -> None:
    """As people and tools write: with comments, trailing commas, a byte order mark, or plain."""
    text = json.dumps(value, indent=chance.choice((None, 2, 4)), ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.4:
        text = "// by hand\n" + text[:-1] + ",\n/* the end */ " + text[-1]
    path.write_bytes((b"\xef\xbb\xbf" if chance.random() < 0.2 else b"") + text.encode() + b"\n")


def _configure(lab: Lab, chance: random.Random) -> None:
    """Project, global and own settings, trust, instruction files, plugins."""
    runner = chance.choice(tuple(AGENTS))
    agent: dict[str, object] = {"phases": chance.randint(1, 3), "session_timeout_hours": chance.choice((24, 72))}
    if chance.random() < 0.7:
        agent |= {"runner": runner, "phase_overrides": {f"phase{n}": {"runner": runner, "model": None} for n in (1, 2, 3)}}
    config: dict[str, object] = {"version": 2, "agent": agent}
    if chance.random() < 0.3:
        (lab.repository.path / "AGENTS.md").write_text("Be brief.\n")
        agent["instruction_files"] = ["AGENTS.md"]
    if chance.random() < 0.3:
        agent["ci_gate"] = {"enabled": True, "argv": ["make", "ci"]}
        (lab.repository.folder / "trust.jsonc").write_text('{"allow_project_commands": true, "trusted_at": null} // yes\n')
    if chance.random() < 0.7:
        _write(lab.repository.config, config, chance)
    if chance.random() < 0.4:
        lab.configure(agent={"iterations": chance.randint(1, 3)}, plugins=_plugin(lab, chance))
    if chance.random() < 0.3:
        own = lab.world.home / ".config/cueloop/cueloopd.jsonc"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text('{"idle_exit_minutes": 5, /* quick */ "log_level": "debug"}')
    if chance.random() < 0.3:
        del lab.environ["XDG_RUNTIME_DIR"], lab.world.environ["XDG_RUNTIME_DIR"]


def _plugin(lab: Lab, chance: random.Random) -> dict[str, object]:
    folder = lab.world.home / ".config/cueloop/plugins/mine"
    folder.mkdir(parents=True)
    manifest = {"api_version": 1, "id": "mine", "version": "1", "name": "Mine", "runner": {"bin": "run"}}
    (folder / "plugin.json").write_text(json.dumps(manifest))
    return {"plugins": {"mine": {"enabled": chance.random() < 0.5}}}


def _leave_traces(lab: Lab, chance: random.Random) -> None:
    """What earlier daemons, runs and people left, none of it wrong."""
    ours = lab.repository.ours
    if chance.random() < 0.4:
        ours.mkdir(0o700)
        (ours / ".gitignore").write_text("*\n")
        open_runs(RunsPlace(str(ours / "runs.db"), lambda: None)).close()
        (ours / "history").mkdir(0o700)
        (ours / "history/00000001.jsonc").write_bytes(session())
    if chance.random() < 0.2:
        (lab.repository.cache / "plans").mkdir()
        (lab.repository.cache / "plans/RQ-0001.md").write_text("1. Do it.\n")
    if chance.random() < 0.2:
        (lab.repository.cache / "stop_requested").touch()
    if chance.random() < 0.2:
        (lab.repository.path / "src/größe").mkdir(parents=True)
        (lab.repository.path / "src/größe/a b.py").write_text("print()\n")


def main(count: int) -> int:
    """Visit so many; 1 where a healthy one was called ill."""
    wrong = 0
    for number in range(count):
        found = visit(number)
        if bad := codes(found, "error", "warning"):
            wrong += 1
            print(f"{number}: {bad}: {[finding.message for finding in found.findings]}")
    print(f"{count} healthy repositories visited, {wrong} called ill.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
