"""What a build adds to the files of the repository: where it was built from, and the manual page.

Both are written into the archive alone; the tree that is built stays as it is. An sdist carries them, so that the wheel that is built from
it is byte for byte the one that is built from the commit. Without git, or outside of a repository of its own, the commit is unknown.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "cueloop_protocol/_build.py"
PAGE = "share/man/man1/cueloop.1"
TEMPLATES, TEMPLATES_IN_WHEEL = ("systemd", "launchd"), "cueloop_client/service/units"
"""The folders of what `cueloop service install` writes, and where it looks for that when it is installed."""


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """`[tool.hatch.build.hooks.custom]` of pyproject.toml names this file."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, and date the archive by the commit unless SOURCE_DATE_EPOCH says otherwise."""
        if version == "editable":
            return
        self._made = Path(tempfile.mkdtemp(prefix="cueloopd-build-"))
        facts = self._made / "_build.py"
        facts.write_bytes(build_facts(Path(self.root)))
        date = runpy.run_path(str(facts))["COMMIT_DATE"]
        if date is not None:
            os.environ.setdefault("SOURCE_DATE_EPOCH", str(int(datetime.fromisoformat(date).timestamp())))
        if self.target_name == "sdist":
            build_data["force_include"][str(facts)] = f"protocol/{MODULE}"
            return
        build_data["force_include"][str(facts)] = MODULE
        for file in sorted(path for folder in TEMPLATES for path in (Path(self.root) / folder).iterdir()):
            build_data["force_include"][str(file)] = f"{TEMPLATES_IN_WHEEL}/{file.name}"
        page = self._made / "cueloop.1"
        page.write_bytes(manual_page(Path(self.root), self.metadata.version, (date or "")[:10]))
        build_data["shared_data"][str(page)] = PAGE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the archive."""
        if version != "editable":
            shutil.rmtree(self._made)


def build_facts(root: Path) -> bytes:
    """The module's text: that of the sdist that `root` is, else of the commit that is checked out there."""
    ready = root / "protocol" / MODULE
    if ready.exists() and (root / "PKG-INFO").exists():
        return ready.read_bytes()
    commit, date, changed = checked_out(root)
    lines = [
        f'"""Written by {Path(__file__).name}."""',
        "",
        f"COMMIT: str | None = {quoted(commit)}",
        f"COMMIT_DATE: str | None = {quoted(date)}",
        f"CHANGED = {changed}",
        "",
    ]
    return "\n".join(lines).encode()


def manual_page(root: Path, version: str, date: str) -> bytes:
    """The page of the commands that are in `root`, whatever version is installed beside the build."""
    code = (
        "import sys; folders, version, date = sys.argv[1:3], *sys.argv[3:]; sys.path[:0] = folders; "
        "from cueloop_client.manual import manual; sys.stdout.buffer.write(manual(version, date).encode())"
    )
    argv = [sys.executable, "-I", "-S", "-B", "-c", code, str(root / "protocol"), str(root / "client"), version, date]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout


def checked_out(root: Path) -> tuple[str | None, str | None, bool]:
    """Commit, its date in UTC, and whether the tree differs from it (files that git does not know count, ignored ones do not)."""
    if not (root / ".git").exists():
        return None, None, False
    try:
        commit, seconds = git(root, "show", "--no-patch", "--no-show-signature", "--format=%H %ct", "HEAD").split()
        changed = bool(git(root, "status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError) as exc:
        print(f"cueloopd: the commit of this build is unknown: {exc}", file=sys.stderr)
        return None, None, False
    return commit, datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), changed


def git(root: Path, *arguments: str) -> str:
    """What git says about the repository in `root`. Raises OSError and CalledProcessError."""
    # A caller's own repository (a hook, a rebase) must not be taken for the one that is built.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", "--no-optional-locks", *arguments], cwd=root, env=environ, check=True, capture_output=True)
    return done.stdout.decode()


def quoted(text: str | None) -> str:
    """As a Python literal in double quotes."""
    return "None" if text is None else f'"{text}"'
