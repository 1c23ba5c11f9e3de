"""Two versions of this distribution, each installed from its wheel in a folder of its own, with its own interpreter to call it by."""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

from support.builds import ROOT, environment, sources

TREE = "tree"
"""The files of this repository as they are now."""
VERSION = "protocol/cueloop_protocol/version.py"


@dataclass(frozen=True)
class Asked:
    """`COMMIT`, or `tree`; with `@VERSION` and `:LOW-HIGH` that version and range of protocols are written into it."""

    commit: str
    version: str | None
    protocols: tuple[int, int] | None

    @classmethod
    def read(cls, text: str) -> Asked:
        """Raises ValueError."""
        found = re.fullmatch(r"([^@:]+)(?:@([\w.]+))?(?::(\d+)-(\d+))?", text)
        if found is None:
            raise ValueError(f"{text!r} is not COMMIT[@VERSION][:LOW-HIGH]")
        commit, version, low, high = found.groups()
        return cls(commit, version, (int(low), int(high)) if low else None)


@dataclass(frozen=True)
class Installed:
    """One version, ready to be called. `protocols` is what it says that it speaks."""

    python: Path
    version: str
    protocols: tuple[int, int]
    hands_over: bool
    """Whether its daemon knows `daemon.handover`."""

    def shares_protocol(self, other: Installed) -> bool:
        """Whether both can talk."""
        return self.protocols[0] <= other.protocols[1] and other.protocols[0] <= self.protocols[1]


def install(asked: Asked, folder: Path) -> Installed:
    """Build the wheel, unpack it, which is all that installing a wheel of Python alone is, and make an interpreter that finds it."""
    folder.mkdir()
    tree, target = folder / "tree", folder / "site"
    _lay(asked, tree)
    with zipfile.ZipFile(build_wheel(tree, folder / "out")) as wheel:
        wheel.extractall(target)
    _write_version(target / "cueloop_protocol/version.py", asked)
    # Once, and not by the first process of each variant: what is compiled is copied with its source's time.
    compileall.compile_dir(target, quiet=2)
    return _installed(folder, target)


def variant(of: Path, asked: Asked, folder: Path) -> Installed:
    """The version that is installed in `of` once more, with another version and other protocols written in."""
    folder.mkdir()
    shutil.copytree(of / "site", folder / "site")
    _write_version(folder / "site/cueloop_protocol/version.py", asked)
    return _installed(folder, folder / "site")


def build_wheel(tree: Path, out: Path) -> Path:
    """The wheel of the tree."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(tree)],
        env=environment(), capture_output=True, timeout=120, check=True, cwd="/",
    )  # fmt: skip
    (wheel,) = out.glob("*.whl")
    return wheel


def _lay(asked: Asked, tree: Path) -> None:
    tree.mkdir()
    if asked.commit == TREE:
        for name in sources():
            if name.split("/")[0] not in ("tests", "docs", "bench"):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        return
    archive = subprocess.run(["git", "archive", asked.commit], cwd=ROOT, check=True, capture_output=True, timeout=60).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True, timeout=60)


def _write_version(path: Path, asked: Asked) -> None:
    text = path.read_text()
    if asked.version is not None:
        text = re.sub(r'(?m)^__version__ = ".*"$', f'__version__ = "{asked.version}"', text)
    if asked.protocols is not None:
        for name, number in zip(("OLDEST_PROTOCOL_VERSION", "PROTOCOL_VERSION"), asked.protocols, strict=True):
            text, times = re.subn(rf"(?m)^{name} = \d+$", f"{name} = {number}", text)
            assert times == 1, f"{path} says nothing of {name}"
    path.write_text(text)


def _installed(folder: Path, target: Path) -> Installed:
    """An interpreter whose packages are those in `target`, then those of the one that runs us."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True, timeout=60)
    python = folder / "env/bin/python"
    (site,) = (folder / "env/lib").glob("python*/site-packages")
    (site / "both.pth").write_text(f"{target}\n{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    asked = (
        "import os, cueloop_protocol.version as v, cueloop_protocol.shapes as s, cueloop_protocol.methods as m;"
        "print(os.path.dirname(os.path.dirname(v.__file__)), v.__version__, s.OLDEST_PROTOCOL_VERSION, s.PROTOCOL_VERSION,"
        " int('daemon.handover' in m.METHODS))"
    )
    done = subprocess.run([python, "-P", "-c", asked], env=environment(), check=True, capture_output=True, timeout=60, cwd="/")
    where, version, low, high, knows = os.fsdecode(done.stdout).split()
    assert Path(where) == target, f"{python} finds {where}"
    return Installed(python, version, (int(low), int(high)), knows == "1")
