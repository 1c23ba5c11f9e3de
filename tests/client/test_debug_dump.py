"""`cueloop debug dump`: one new file, whatever the daemon does."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from client.fakes import Connection, Recorder, answering, make_world, serving
from cueloop_client.commands.debug_dump import _write_new
from cueloop_client.hung import ask_for_stacks, catches
from cueloop_client.main import run
from cueloop_client.reach import Process
from cueloop_client.redacting import without_private
from cueloop_client.reporting import as_failure
from cueloop_protocol.codes import method_not_found
from cueloop_protocol.example_values import DUMP
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.roots import Root


def call(root: Root, environ: dict[str, str], line: str) -> tuple[int, Recorder]:
    recorder = Recorder()
    return run(["--repo", root.path, *line.split()], make_world(environ, recorder, wall=lambda: 1_770_458_400.0)), recorder


def printed(root: Root, environ: dict[str, str], line: str = "debug dump -o -") -> dict[str, Any]:
    code, told = call(root, environ, line)
    assert (code, told.err) == (0, "")
    document: dict[str, Any] = json.loads(told.out)
    assert document["version"] == 1
    return document


def test_a_daemon_that_answers_tells_by_itself(root: Root, environ: dict[str, str]) -> None:
    with serving(root, environ, answering({"daemon.dump": DUMP})):
        document = printed(root, environ)
    assert document["daemon"] == {"state": "answered"}
    assert document["dump"] == DUMP
    assert document["client"]["environment"] == sorted(environ)


def test_it_is_a_new_file_for_its_owner_alone(
    root: Root, environ: dict[str, str], short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(short)
    code, told = call(root, environ, "debug dump")
    path = short / "cueloop-dump-20260207T100000Z.json"
    assert (code, told.out.startswith(f"Written to {path.name} (")) == (0, True)
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    assert json.loads(before)["daemon"]["state"] == "not running"
    code, told = call(root, environ, "debug dump")
    assert (code, "is there already" in told.err, path.read_bytes()) == (1, True, before)
    code, told = call(root, environ, "debug dump --json --output other.json")
    assert json.loads(told.out)["path"] == str(short / "other.json")
    (short / "link.json").symlink_to(short / "elsewhere")
    assert call(root, environ, "debug dump -o link.json")[0] == 1
    assert not (short / "elsewhere").exists()
    assert call(root, environ, "debug dump -o none/x.json")[0] == 1
    assert call(root, environ, "debug dump --output=")[0] == 1


def test_a_disk_without_room_is_told_with_the_files_name_and_nothing_is_left(short: Path) -> None:
    path = short / "dump.json"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            _write_new(str(path), b"x" * 17)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (as_failure(caught.value).message, path.exists()) == (f"{path}: File too large.", False)


@pytest.mark.parametrize("how", ["another version", "nonsense", "not asked"])
def test_what_is_on_disk_is_told_where_the_daemon_does_not(root: Root, environ: dict[str, str], how: str) -> None:

    def handle(connection: Connection, request: dict[str, Any]) -> None:
        if how == "nonsense":
            connection.raw(b"nonsense\n")
        else:
            connection.refuse(request, method_not_found("daemon.dump").to_wire())

    with serving(root, environ, handle) as daemon:
        document = printed(root, environ, f"debug dump -o - {'--no-daemon' if how == 'not asked' else ''}")
        assert (how == "not asked") == (daemon.received == [])
    assert (document["daemon"]["state"], document["daemon"]["pid"]) == ("running", os.getpid())
    assert document["daemon"]["said"]
    assert document["daemon"]["seen_from_outside"]["memory_bytes"] > 1_000_000
    assert {fact["name"]: fact["kind"] for fact in document["dump"]["files"]}["queue.jsonc"] == "file"


def test_one_that_hangs_is_told_from_outside_and_not_signalled_if_it_would_die(root: Root, environ: dict[str, str]) -> None:
    # The fake one is this very process, which has no handler.
    with serving(root, environ, lambda connection, request: None):
        document = printed(root, environ, "--timeout 0.3 debug dump -o -")
    assert document["daemon"]["state"] == "not answering"
    assert document["daemon"]["stacks"] == "It was not asked for its stacks: it does not handle the signal (yet)."


def test_nothing_of_the_callers_own_is_told(root: Root, environ: dict[str, str], short: Path) -> None:
    mine = {**environ, "MY_TOKEN": "hunter22-long", "ODD": "answered", "HOME": str(short)}
    said = {**DUMP, "notes": [f"hunter22-long in {short}/x", "answered"]}
    with serving(root, mine, answering({"daemon.dump": said})):
        document = printed(root, mine)
    assert document["dump"]["notes"] == ["[REDACTED] in ~/x", "answered"]
    assert document["daemon"]["state"] == "answered"
    assert "hunter22" not in json.dumps(document)
    assert document["client"]["repository"] == "~/repo"


def test_keys_and_other_values_stay() -> None:
    world = make_world({"A": "secret-word", "HOME": "relative"})
    assert without_private({"secret-word": [1, None, True, "a secret-word b"]}, world) == {
        "secret-word": [1, None, True, "a [REDACTED] b"]
    }


SLEEPER = "import {how}; print('ready', flush=True); input()"
HANDLED = "signal, sys; signal.signal(signal.SIGUSR1, lambda *_: open(sys.argv[1], 'w').write('Thread 1'))"


@pytest.mark.parametrize(("how", "said"), [(HANDLED, "and wrote them"), ("sys", "does not handle the signal")])
def test_only_a_process_that_is_ready_for_the_signal_gets_it(root: Root, short: Path, how: str, said: str) -> None:
    folder = Path(root.join(".cueloop/cache/cueloopd"))
    folder.mkdir(parents=True)
    argv = [sys.executable, "-c", SLEEPER.format(how=how), str(folder / "stacks.txt")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert catches(process.pid, signal.SIGUSR1) == (how == HANDLED)
        identity = Process(process.pid, process_start_time(process.pid) or "", boot_id())
        world = make_world({})
        assert said in ask_for_stacks(root, identity, world.deadline(20))
        assert process.poll() is None
        process.kill()
    assert "does not handle" in ask_for_stacks(root, identity, world.deadline(20)) or catches(process.pid, signal.SIGUSR1)
