"""Sdist and wheel through pip, pipx and uv, each into an environment of its own, and what is installed is used. Needs a registry.

    python tests/packaging/try_installers.py            a table; exit code 1 if one of them fails

Everything happens in a temporary folder with blanks in its path. Nothing of the caller's home, tools or settings is used or changed, but
for the settings that name a registry.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 600
STAMPS = '"created_at": "2026-02-07T10:00:00Z", "updated_at": "2026-02-07T10:00:00Z"'
QUEUE = f'{{"version": 1, "tasks": [{{"id": "RQ-0001", "title": "Try it", {STAMPS}}}]}}'
REGISTRY = (
    "PIP_INDEX_URL",
    "PIP_CONFIG_FILE",
    "PIP_CERT",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "SSL_CERT_FILE",
    "HTTPS_PROXY",
    "https_proxy",
)
TOOLS = ("build", "pip", "pipx", "twine", "uv")
MANUAL = "share/man/man1/cueloop.1"


class Failed(Exception):
    """A program of the trial did not do what it should; the text is its last words."""


@dataclass(frozen=True)
class Installed:
    """What an installer made: the command, an interpreter that finds the packages, what that needs in its environment, the manual page."""

    cueloop: Path
    python: Path
    manual: Path
    environ: dict[str, str]


@dataclass(frozen=True)
class Trial:
    """The folder of the trial, the installers, what is installed, and the environment of every program."""

    folder: Path
    tools: Path
    sdist: Path
    wheel: Path
    environ: dict[str, str]

    def run(self, *argv: str | Path, cwd: Path | str = "/", **environ: str) -> str:
        """Standard output. Raises Failed."""
        done = subprocess.run(
            [*map(str, argv)], cwd=cwd, env={**self.environ, **environ}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        if done.returncode:
            raise Failed(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
        return done.stdout


def main() -> int:
    """Build, check the metadata, install eight times, tell."""
    with trial() as made:
        made.run(made.tools / "twine", "check", "--strict", made.sdist, made.wheel)
        print(f"{made.wheel.name} and {made.sdist.name} built; twine check --strict: passed; with {versions(made)}", flush=True)
        return max([attempt(made, name, install) for name, install in INSTALLERS.items()])


def versions(made: Trial) -> str:
    """Of what took part."""
    listed = json.loads(made.run(made.tools / "python", "-m", "pip", "list", "--format", "json"))
    chosen = [f"{row['name']} {row['version']}" for row in listed if row["name"] in TOOLS]
    return ", ".join([f"Python {sys.version.split(maxsplit=1)[0]}", *chosen])


def attempt(made: Trial, name: str, install: Callable[[Trial, Path], Installed]) -> int:
    """Install and use; prints a line. 0 if all went well, else 1."""
    begun = time.monotonic()
    where = made.folder / name.replace("/", " ")
    where.mkdir()
    try:
        told = use(made, install(made, where), where)
    except Failed as exc:
        print(f"{name:<32} FAILED\n{exc}", flush=True)
        return 1
    print(f"{name:<32} {told} ({time.monotonic() - begun:.1f} s)", flush=True)
    return 0


def use(made: Trial, installed: Installed, where: Path) -> str:
    """The version, the daemon's life, an answer without it, the manual page. Raises Failed."""
    runtime = Path(tempfile.mkdtemp(prefix="cli"))  # short: a socket is in it
    repository = where / "a repository"
    (repository / ".cueloop").mkdir(parents=True)
    (repository / ".cueloop/queue.jsonc").write_text(QUEUE)

    def cueloop(*argv: str) -> str:
        return made.run(installed.cueloop, *argv, cwd=repository, XDG_RUNTIME_DIR=str(runtime), **installed.environ)

    try:
        version = json.loads(cueloop("--version", "--json"))
        expect(version["source"] == "built" and version["commit"] is not None, f"the version says {version}")
        module = made.run(installed.python, "-P", "-m", "cueloop_client", "--version", cwd=repository, **installed.environ)
        expect(cueloop("--version") == module, f"python -m cueloop_client says {module}")
        try:
            expect("No interrupted session" in cueloop("session", "show"), "session show does not say what there is")
            expect(json.loads(cueloop("daemon", "status", "--json"))["running"] is True, "no daemon runs")
            document = json.loads(cueloop("machine", "workspace", "overview"))
        finally:
            cueloop("daemon", "stop")
        expect(document["queue"]["next_runnable_task_id"] == "RQ-0001", "the overview misses the task")
        resolved = json.loads(cueloop("--no-daemon", "machine", "config", "resolve"))
        expect(resolved == document["config"], "the answer without a daemon is another one")
    finally:
        shutil.rmtree(runtime, ignore_errors=True)
    expect(installed.manual.is_file(), f"no manual page at {installed.manual}")
    return f"version, daemon, answers, manual page: as they should be; commit {version['commit'][:12]}"


def expect(is_so: bool, otherwise: str) -> None:
    """Raises Failed with the text unless it is so."""
    if not is_so:
        raise Failed(otherwise)


def in_venv(environment: Path) -> Installed:
    return Installed(environment / "bin/cueloop", environment / "bin/python", environment / MANUAL, {})


def pip(made: Trial, where: Path, *what: str | Path) -> Installed:
    made.run(sys.executable, "-m", "venv", where / "v")
    made.run(where / "v/bin/python", "-m", "pip", "install", "--quiet", *what)
    return in_venv(where / "v")


def pip_prefix(made: Trial, where: Path) -> Installed:
    """As distributions and people without rights do: elsewhere than the interpreter looks, told to it by PYTHONPATH."""
    prefix = where / "prefix"
    made.run(made.tools / "python", "-m", "pip", "install", "--quiet", "--ignore-installed", "--prefix", prefix, made.wheel)
    packages = next(prefix.glob("lib/python*/site-packages"))
    return Installed(prefix / "bin/cueloop", made.tools / "python", prefix / MANUAL, {"PYTHONPATH": str(packages)})


def pip_user(made: Trial, where: Path) -> Installed:
    """Into a user base of its own, with the interpreter below our environment, which has one."""
    environ = {"PYTHONUSERBASE": str(where / "base"), "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    python = Path(getattr(sys, "_base_executable", sys.executable))
    made.run(python, "-m", "pip", "install", "--quiet", "--user", "--ignore-installed", made.wheel, **environ)
    return Installed(where / "base/bin/cueloop", python, where / "base" / MANUAL, environ)


def pipx(made: Trial, where: Path) -> Installed:
    environ = {"PIPX_HOME": str(where / "home"), "PIPX_BIN_DIR": str(where / "bin"), "PIPX_MAN_DIR": str(where / "man")}
    made.run(made.tools / "pipx", "install", "--quiet", made.wheel, **environ)
    return Installed(where / "bin/cueloop", where / "home/venvs/cueloopd/bin/python", where / "man/man1/cueloop.1", {})


def uv_tool(made: Trial, where: Path) -> Installed:
    environ = {"UV_TOOL_DIR": str(where / "tools"), "UV_TOOL_BIN_DIR": str(where / "bin")}
    made.run(made.tools / "uv", "tool", "install", "--quiet", "--python", sys.executable, made.wheel, **environ)
    return Installed(where / "bin/cueloop", where / "tools/cueloopd/bin/python", where / "tools/cueloopd" / MANUAL, {})


def uv_pip(made: Trial, where: Path) -> Installed:
    made.run(made.tools / "uv", "venv", "--quiet", "--python", sys.executable, where / "v")
    made.run(made.tools / "uv", "pip", "install", "--quiet", "--python", where / "v/bin/python", made.sdist)
    return in_venv(where / "v")


INSTALLERS: dict[str, Callable[[Trial, Path], Installed]] = {
    "pip, wheel": lambda made, where: pip(made, where, made.wheel),
    "pip, wheel, nothing compiled": lambda made, where: pip(made, where, "--no-compile", made.wheel),
    "pip, sdist": lambda made, where: pip(made, where, made.sdist),
    "pip --prefix, wheel": pip_prefix,
    "pip --user, wheel": pip_user,
    "pipx, wheel": pipx,
    "uv tool, wheel": uv_tool,
    "uv pip, sdist": uv_pip,
}


@contextmanager
def trial() -> Iterator[Trial]:
    """The installers, and sdist and wheel built in isolation. Raises Failed."""
    folder = Path(tempfile.mkdtemp(prefix="cueloopd packages "))
    (folder / "home").mkdir()
    environ = {name: os.environ[name] for name in REGISTRY if name in os.environ}
    environ |= {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "UV_CACHE_DIR": str(folder / "cache"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    environ |= {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PIP_CACHE_DIR": str(folder / "pip cache"), "NO_COLOR": "1"}
    tools = folder / "tools/bin"
    try:
        bare = Trial(folder, tools, folder, folder, environ)
        bare.run(sys.executable, "-m", "venv", folder / "tools")
        bare.run(tools / "python", "-m", "pip", "install", "--quiet", *(tool for tool in TOOLS if tool != "pip"))
        bare.run(tools / "python", "-m", "build", "--outdir", folder / "dist", ROOT)
        (sdist,), (wheel,) = folder.glob("dist/*.tar.gz"), folder.glob("dist/*.whl")
        yield Trial(folder, tools, sdist, wheel, environ)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as exc:
        sys.exit(str(exc))
