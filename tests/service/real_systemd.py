"""Boot a small Debian whose first process is systemd, install the wheel there, and let `guest.py` look: one line for each check.

    python tests/service/real_systemd.py ROOT

ROOT is a folder for the system: made with debootstrap where it is missing (some 350 MB, from the network), used again otherwise.
Needs root, `systemd-nspawn`, for a new ROOT `debootstrap`, and Python 3.11, as the system has. What the wheel needs is fetched by pip
into `ROOT.wheels`, unless it is there. Exit code 0: every check is ok. Not part of the suite: it takes some five minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
PACKAGES = "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,git,procps,python3,python3-venv"
SECONDS = 1200
UNIT = """[Unit]
Description=The checks
After=multi-user.target dbus.service systemd-logind.service
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /checks/guest.py
StandardOutput=append:/checks/lines
StandardError=append:/checks/errors
TimeoutStartSec=infinity

[Install]
WantedBy=multi-user.target
"""


def make_system(root: Path) -> None:
    """A Debian with Python in `root`, if it is not there."""
    if not (root / "usr/bin/systemctl").exists():
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)], check=True)
    elif not (root / "usr/bin/python3").exists():
        words = ["apt-get", "install", "-qy", "--no-install-recommends", "python3", "python3-venv"]
        subprocess.run(["systemd-nspawn", "-q", "-D", str(root), "--register=no", "--keep-unit", *words], check=True)


def wheels(kept: Path, folder: Path) -> None:
    """Our wheel, built now, and those that it needs, in `folder`."""
    with tempfile.TemporaryDirectory() as out:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, str(TOP)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        ours = next(Path(out).glob("cueloopd-*.whl"))
        if not any(kept.glob("pydantic_core-*")):
            pip = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--wheel-dir", str(kept), str(ours)]
            subprocess.run(pip, check=True)
        folder.mkdir(parents=True)
        for wheel in [path for path in kept.glob("*.whl") if not path.name.startswith("cueloopd-")] + [ours]:
            shutil.copy(wheel, folder)


def main(root: Path) -> int:
    make_system(root)
    # What an earlier time has left, so that each begins with the same system.
    for left in ("checks", "opt/cueloop", "home/tester", "tmp/cueloopd-1000", "var/lib/systemd/linger", "var/log/journal"):
        shutil.rmtree(root / left, ignore_errors=True)
    (root / "var/log/journal").mkdir()  # a user sees the journal of his own only where it is kept
    for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid"):
        path = root / "etc" / name
        if path.exists():
            path.write_text(
                "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("tester:"))
            )
    checks = root / "checks"
    wheels(root.with_name(root.name + ".wheels"), checks / "wheels")
    shutil.copy(HERE / "guest.py", checks)
    shutil.copy(TOP / "tests/support/agent.py", checks)
    (root / "etc/systemd/system/checks.service").write_text(UNIT)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "checks.service").unlink(missing_ok=True)
    (wants / "checks.service").symlink_to("/etc/systemd/system/checks.service")
    boot = [
        "systemd-nspawn",
        "-q",
        "-D",
        str(root),
        "--boot",
        "--register=no",
        "--keep-unit",
        "--link-journal=no",
        "--console=pipe",
    ]
    with (root.with_name(root.name + ".console")).open("wb") as console:
        subprocess.run(boot, stdin=subprocess.DEVNULL, stdout=console, stderr=console, timeout=SECONDS, check=False)
    lines = (checks / "lines").read_text() if (checks / "lines").exists() else ""
    errors = (checks / "errors").read_text() if (checks / "errors").exists() else "the system did not come to the checks\n"
    sys.stdout.write(lines)
    sys.stderr.write(errors)
    return 0 if "all is well" in lines else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve()))
