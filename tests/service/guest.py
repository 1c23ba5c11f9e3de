"""Inside a system whose first process is a real systemd: what a user's service is to do there, one line for each check.

Run as root by `real_systemd.py`; not part of the suite. Standard library only.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
USER, PREFIX = "tester", Path("/opt/cueloop")
SECONDS = 30.0
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
STAMP = "2026-02-07T10:00:00.000000000Z"
AGENT = {
    "runner": "claude", "model": "sonnet", "phases": 1, "git_revert_mode": "disabled", "notification": {"enabled": False},
    "runner_retry": {"max_attempts": 1}, "phase_overrides": {f"phase{number}": {"model": "sonnet"} for number in (1, 2, 3)},
}  # fmt: skip
FAILED: list[str] = []


class Wrong(Exception):
    """What was seen is not what is to be."""


@contextmanager
def check(name: str) -> Iterator[list[str]]:
    """One check: a line that begins with `ok` or `FAIL`, with what was seen."""
    seen: list[str] = []
    began = time.monotonic()
    try:
        yield seen
    except Exception as exc:
        FAILED.append(name)
        print(f"FAIL  {name}: {type(exc).__name__}: {exc}", flush=True)
    else:
        told = f" ({', '.join(seen)})" if seen else ""
        print(f"ok    {name}{told}  [{time.monotonic() - began:.1f} s]", flush=True)


def until(what: Callable[[], Any], wanted: str, seconds: float = SECONDS) -> Any:
    """The first true answer. Raises Wrong at the deadline."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > deadline:
            raise Wrong(f"not within {seconds:g} s: {wanted}")
        time.sleep(0.05)
    return found


def equal(seen: object, wanted: object) -> None:
    """Raises Wrong if they differ."""
    if seen != wanted:
        raise Wrong(f"{seen!r} instead of {wanted!r}")


def as_user(*argv: str, runtime: bool = True, cwd: str = "/") -> subprocess.CompletedProcess[str]:
    """Call it as the user, in an environment as ssh or a login gives it; without `runtime` as cron does."""
    entry = pwd.getpwnam(USER)
    environ = {"HOME": entry.pw_dir, "USER": USER, "LOGNAME": USER, "PATH": f"{PREFIX}/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    if runtime:
        environ["XDG_RUNTIME_DIR"] = f"/run/user/{entry.pw_uid}"
    words = [f"{name}={value}" for name, value in environ.items()]
    return subprocess.run(
        ["runuser", "-u", USER, "--", "env", "-i", "-C", cwd, *words, *argv],
        capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def systemctl(*argv: str) -> str:
    """What the user's systemctl says."""
    return as_user("systemctl", "--user", *argv).stdout.strip()


class Repository:
    """A repository of the user, its unit, and its agent."""

    def __init__(self, name: str) -> None:
        self.path = f"{pwd.getpwnam(USER).pw_dir}/code/{name}"
        self.agent = Path(f"{pwd.getpwnam(USER).pw_dir}/agents/{len(name)}")

    def make(self) -> Repository:
        folder = Path(self.path) / ".cueloop"
        folder.mkdir(parents=True)
        self.agent.mkdir(parents=True)
        program = self.agent / "claude"
        program.write_text(f"#!/usr/bin/python3 -IS\n{(HERE / 'agent.py').read_text()}")
        program.chmod(0o755)
        self.act("work()")
        tasks = [
            {"id": f"RQ-000{number}", "status": "todo", "title": f"Task {number}", "created_at": STAMP, "updated_at": STAMP}
            for number in range(1, 6)
        ]
        (folder / "queue.jsonc").write_text(json.dumps({"version": 1, "tasks": tasks}))
        (folder / "config.jsonc").write_text(json.dumps({"version": 2, "agent": {**AGENT, "claude_bin": str(program)}}))
        (folder / "trust.jsonc").write_text(json.dumps({"allow_project_commands": True, "trusted_at": "2026-02-07T10:00:00Z"}))
        (Path(self.path) / ".gitignore").write_text(".cueloop/cache/\n.cueloop/lock/\n")
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(folder.parents[2])], check=True)
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(self.agent.parent)], check=True)
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
            done = as_user(*GIT, *words, cwd=self.path)
            equal((words, done.returncode, done.stderr), (words, 0, ""))
        return self

    def act(self, code: str) -> None:
        (self.agent / "act.py").write_text(code)

    def release(self, name: str) -> None:
        (self.agent / name).touch()

    def agent_pid(self, call: int) -> int:
        """The agent of that call, once it is there."""
        calls = self.agent / "calls.jsonl"
        lines = until(
            lambda: calls.exists() and len(calls.read_text().splitlines()) >= call and calls.read_text(), "the agent's call"
        )
        return int(json.loads(lines.splitlines()[call - 1])["pid"])

    def cueloop(self, *argv: str, runtime: bool = True) -> subprocess.CompletedProcess[str]:
        return as_user(f"{PREFIX}/bin/cueloop", *argv, "--repo", self.path, runtime=runtime)

    def json(self, *argv: str, code: int | None = 0, runtime: bool = True) -> Any:
        done = self.cueloop(*argv, "--json", runtime=runtime)
        if code is not None and done.returncode != code:
            raise Wrong(f"{' '.join(argv)}: exit {done.returncode}: {done.stdout[-600:]} {done.stderr[-600:]}")
        return json.loads(done.stdout)

    def ask(self, *, runtime: bool = True) -> None:
        """A request that any daemon answers."""
        done = self.cueloop("session", "show", runtime=runtime)
        equal((done.returncode, done.stderr), (0, ""))

    @property
    def unit(self) -> str:
        return str(as_user("systemd-escape", "--path", "--template=cueloopd@.service", self.path).stdout.strip())

    @property
    def socket(self) -> str:
        return self.unit.removesuffix(".service") + ".socket"

    def show(self, name: str, *, unit: str = "") -> str:
        return systemctl("show", unit or self.unit, f"--property={name}", "--value")

    @property
    def pid(self) -> int:
        return int(self.show("MainPID") or 0)

    def active_run(self) -> Any:
        return self.json("daemon", "status").get("active_run")


def lives(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def install_package() -> None:
    """The wheel and what it needs, from files alone."""
    subprocess.run([sys.executable, "-m", "venv", str(PREFIX)], check=True)
    pip = [f"{PREFIX}/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, "--find-links", str(HERE / "wheels"), "cueloopd"], check=True)


def make_user() -> None:
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", USER], check=True)
    subprocess.run(["loginctl", "enable-linger", USER], check=True)
    until(lambda: systemctl("is-system-running") in ("running", "degraded"), "the user's manager")


def service_checks(one: Repository) -> None:
    """From nothing to a daemon that a request starts."""
    with check("install: files written, socket on, first request answered") as seen:
        report = one.json("service", "install")
        equal((report["works"], report["advice"], report["manager"]), (True, [], "systemd"))
        seen.append(report["unit"])
    with check("install again: nothing is written, nothing is called"):
        report = one.json("service", "install")
        equal(({file["done"] for file in report["files"]}, report["commands"]), ({"unchanged"}, []))
    with check("status: enabled, listening, running, all files as written; Type=notify") as seen:
        status = one.json("service", "status")
        equal([status[name] for name in ("enabled", "listening", "running", "problems")], [True, True, True, []])
        equal(one.json("daemon", "status")["origin"], "systemd")
        seen.append(one.show("StatusText"))


def life_checks(one: Repository) -> None:
    with check("stop: gone, and looking does not bring it back"):
        equal(one.cueloop("daemon", "stop").returncode, 0)
        equal(one.cueloop("daemon", "status").returncode, 3)
        equal(one.json("service", "status")["running"], False)
        equal(one.pid, 0)
    with check("the first request activates it") as seen:
        began = time.monotonic()
        one.ask()
        seen.append(f"{(time.monotonic() - began) * 1000:.0f} ms with the command")
        equal(one.json("daemon", "status")["pid"], one.pid)
    with check("a command without XDG_RUNTIME_DIR (cron) finds the same daemon"):
        equal(one.json("daemon", "status", runtime=False)["pid"], one.pid)
    with check("and activates it, too"):
        equal(one.cueloop("daemon", "stop", runtime=False).returncode, 0)
        one.ask(runtime=False)
        equal(one.json("daemon", "status")["origin"], "systemd")
    with check("kill -9: started again by systemd") as seen:
        before = one.pid
        os.kill(before, signal.SIGKILL)
        until(lambda: one.pid not in (0, before), "another process")
        one.ask()
        seen.append(f"restarts: {one.show('NRestarts')}")
    with check("SIGSTOP: the watchdog ends it, and it is started again") as seen:
        override = Path(pwd.getpwnam(USER).pw_dir) / f".config/systemd/user/{one.unit}.d/90-test.conf"
        override.write_text("[Service]\nWatchdogSec=2\nTimeoutAbortSec=5\n")
        systemctl("daemon-reload")
        systemctl("restart", one.unit)
        before = one.pid
        time.sleep(3)  # longer than the watchdog's period: it is content with a daemon that lives
        equal(one.pid, before)
        os.kill(before, signal.SIGSTOP)
        until(lambda: one.pid not in (0, before), "another process")
        one.ask()
        override.unlink()
        systemctl("daemon-reload")
        journal = until(
            lambda: (said := one.cueloop("service", "logs").stdout) and "Watchdog timeout" in said and said, "the journal"
        )
        seen.append(next(line.split(": ", 1)[1] for line in journal.splitlines() if "Watchdog timeout" in line))
        equal("most recent call first" in journal, True)  # where it hung, as faulthandler tells
    with check("settings that cannot be used: each caller hears why, and the socket stays") as seen:
        settings = Path(pwd.getpwnam(USER).pw_dir) / ".config/cueloop/cueloopd.jsonc"
        settings.parent.mkdir(parents=True, exist_ok=True)
        equal(one.cueloop("daemon", "stop").returncode, 0)
        settings.write_text("{ nonsense")
        try:
            said = [one.cueloop("daemon", "start") for _ in range(12)]
            equal({done.returncode for done in said}, {1})
            seen.append(said[-1].stderr.splitlines()[0])
            equal(one.show("ActiveState", unit=one.socket), "active")
        finally:
            settings.unlink()
        until(lambda: one.cueloop("session", "show").returncode == 0, "an answer again")
        equal(one.json("daemon", "status")["origin"], "systemd")


def run_checks(one: Repository) -> None:
    one.act("begin(); wait_for(f'go{NUMBER}'); text('w'); end('w')")
    with check("a run goes on through `systemctl --user restart`, with the very agent that it had") as seen:
        equal(one.cueloop("run", "one", "--detach").returncode, 0)
        agent, daemon = one.agent_pid(1), one.pid
        systemctl("restart", one.unit)
        until(lambda: one.pid not in (0, daemon), "another daemon")
        run = until(lambda: (found := one.active_run()) and found["state"] == "running" and found, "the run adopted")
        equal((lives(agent), len((one.agent / "calls.jsonl").read_text().splitlines())), (True, 1))
        one.release("go1")
        until(lambda: one.active_run() is None, "the run's end")
        record = one.json("run", "status", "--run-id", run["run_id"])
        seen.append(f"agent {agent}, outcome {record['run']['summary']['outcome']}")
    with check("a run goes on through `systemctl --user stop`; its end starts the daemon, through the socket") as seen:
        equal(one.cueloop("run", "one", "--detach").returncode, 0)
        agent = one.agent_pid(2)
        systemctl("stop", one.unit)
        equal((one.pid, lives(agent)), (0, True))
        one.release("go2")
        until(lambda: one.pid != 0, "the daemon started by the run's shim", 60)
        until(lambda: one.active_run() is None, "the run's end")
        equal(one.json("daemon", "status")["origin"], "systemd")
        seen.append(f"agent {agent}")


def neighbour_checks(one: Repository, two: Repository) -> None:
    with check("a daemon that a command started makes room for the service, with its run") as seen:
        two.act("begin(); wait_for('go'); text('w'); end('w')")
        equal(two.cueloop("run", "one", "--detach").returncode, 0)
        agent = two.agent_pid(1)
        before = two.json("daemon", "status")
        equal(before["origin"], "demand")
        report = two.json("service", "install")
        equal((report["works"], report["replaced_pid"]), (True, before["pid"]))
        until(lambda: (run := two.active_run()) and run["state"] == "running", "the run adopted")
        equal(lives(agent), True)
        two.release("go")
        until(lambda: two.active_run() is None, "the run's end")
        seen.append(f"process {before['pid']} -> {two.pid}")
    with check("two repositories side by side"):
        one.ask()
        equal((one.pid != two.pid, bool(one.pid), bool(two.pid)), (True, True, True))
    with check("an activated daemon takes the place of one that a command started elsewhere"):
        equal(two.cueloop("daemon", "stop").returncode, 0)
        systemctl("stop", two.socket)
        two.ask()  # nobody listens: started on demand
        stranger = two.json("daemon", "status")
        equal(stranger["origin"], "demand")
        systemctl("start", two.socket)
        systemctl("start", two.unit)
        until(lambda: two.json("daemon", "status", code=None).get("origin") == "systemd", "the service in its place")
        equal(lives(stranger["pid"]), False)
    with check("idle exit after a minute, and activation after it"):
        settings = Path(pwd.getpwnam(USER).pw_dir) / ".config/cueloop/cueloopd.jsonc"
        settings.write_text('{"idle_exit_minutes": 1}')
        systemctl("restart", two.unit)
        before = two.pid
        until(lambda: two.pid == 0, "the idle exit", 100)
        equal((two.show("Result"), lives(before)), ("success", False))
        settings.unlink()
        two.ask()
        equal(two.json("daemon", "status")["origin"], "systemd")
    with check("a repository that was moved: status names it, the next install cleans it"):
        two.cueloop("daemon", "stop")
        os.rename(two.path, f"{two.path} moved")
        equal(one.json("service", "status")["gone"], [two.path])
        equal(one.json("service", "install")["cleaned"], [two.path])
        equal([one.json("service", "status")["gone"], systemctl("is-active", two.socket)], [[], "inactive"])
    with check("an interpreter that was moved: status says so, and what to do") as seen:
        moved = PREFIX.with_name("moved")
        os.rename(PREFIX, moved)
        try:
            done = as_user(f"{moved}/bin/python", "-P", "-m", "cueloop_client", "service", "status", "--json", "--repo", one.path)
            equal(done.returncode, 1)
            seen += [problem["message"] for problem in json.loads(done.stdout)["problems"]]
        finally:
            os.rename(moved, PREFIX)


def end_checks(one: Repository) -> None:
    with check("a file that a person changed stays, and is told"):
        drop_in = Path(pwd.getpwnam(USER).pw_dir) / f".config/systemd/user/{one.unit}.d/50-cueloop.conf"
        text = drop_in.read_text()
        drop_in.write_text(text + "Nice=5\n")
        report = one.json("service", "install")
        equal([file["done"] for file in report["files"] if file["path"] == str(drop_in)], ["kept"])
        drop_in.write_text(text)
    with check("uninstall: nothing of it is left, and the next command starts a daemon by itself"):
        report = one.json("service", "uninstall")
        equal((report["found"], {file["done"] for file in report["files"]} - {"removed"}), (True, set()))
        left = list((Path(pwd.getpwnam(USER).pw_dir) / ".config/systemd/user").rglob("*cueloop*"))
        equal((left, systemctl("list-units", "--all", "--no-legend", "cueloopd@*")), ([], ""))
        one.ask()
        equal(one.json("daemon", "status")["origin"], "demand")
        equal(one.json("service", "status", code=3)["installed"], False)


def logout_checks(one: Repository) -> None:
    """Last, since the user's manager ends with it."""
    uid = pwd.getpwnam(USER).pw_uid
    subprocess.run(["loginctl", "disable-linger", USER], check=True)
    session = ["systemd-run", "--quiet", f"--uid={USER}", "--property=PAMName=login"]
    with check("without linger: install says what a logout ends"):
        subprocess.run([*session, "--unit=first-session", "sleep", "infinity"], check=True)
        until(lambda: systemctl("is-system-running") in ("running", "degraded"), "the user's manager")
        report = one.json("service", "install")
        equal((report["works"], "Linger is off" in report["advice"][0]), (True, True))
    with check("logout without linger: systemd ends daemon, run and agent") as seen:
        one.act("begin(); wait_for('never'); end('w')")
        calls = len((one.agent / "calls.jsonl").read_text().splitlines())
        equal(one.cueloop("run", "one", "--detach").returncode, 0)
        agent, daemon = one.agent_pid(calls + 1), one.pid
        subprocess.run(["systemctl", "stop", "first-session.service"], check=True)
        began = time.monotonic()
        until(lambda: not lives(daemon) and not lives(agent), "the end of both", 60)
        until(lambda: not Path(f"/run/user/{uid}").exists(), "the end of the runtime folder", 60)
        seen.append(f"{time.monotonic() - began:.0f} s after the logout")
    with check("login again: the socket listens, the first request tells how the run ended") as seen:
        subprocess.run([*session, "--unit=second-session", "sleep", "infinity"], check=True)
        until(lambda: one.show("ActiveState", unit=one.socket) == "active", "the socket")
        one.ask()
        equal((one.json("daemon", "status")["origin"], one.active_run()), ("systemd", None))
        summary = one.json("run", "status")["run"]["summary"]
        seen.append(f"{summary['outcome']}: {summary.get('reason_code') or summary.get('detail')}")


def main() -> int:
    print(
        f"systemd {subprocess.run(['systemctl', '--version'], capture_output=True, text=True, check=True).stdout.split()[1]}",
        flush=True,
    )
    make_user()
    install_package()
    one, two = Repository("my repo 100%").make(), Repository("second").make()
    for part in (service_checks, life_checks, run_checks):
        part(one)
    neighbour_checks(one, two)
    end_checks(one)
    logout_checks(one)
    print(f"{len(FAILED)} failed" if FAILED else "all is well", flush=True)
    return 1 if FAILED else 0


if __name__ == "__main__":
    if shutil.which("systemd-run") is None or os.getuid():
        sys.exit("this is for root in a system of its own: see real_systemd.py")
    sys.exit(main())
