"""A daemon's process as `launch` sees it: it counts its starts, then does what `.cueloop/fake.json` says.

ready: own the repository by flock, serve `ping`, `daemon.status` and `daemon.shutdown`, and say so on the pipe. The other modes
are the ways in which a start fails. Where it is to take over, it says that the one that runs is too old, unless `stays` is another
reason, or empty.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.place import FOLDER, LOCATOR, Locator, ensure_socket_folder, locator_bytes
from cueloop_protocol.roots import Root, open_root


def main(root_path: str, ready_fd: int, *more: str) -> int:
    root = open_root(root_path)
    with open(root.join(".cueloop/fake.json"), encoding="utf-8") as file:
        plan = json.load(file)
    if more and (stays := plan.get("stays", {"why": "old", "pid": None, "error": {"code": "unknown", "message": "old"}})):
        _say(ready_fd, stays=stays)
        return 4
    with open(root.join(".cueloop/starts"), "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    with open(root.join(".cueloop/environment.json"), "w", encoding="utf-8") as file:
        facts = {
            "environ": dict(os.environ),
            "cwd": os.getcwd(),
            "session": os.getsid(0),
            "open": _open_files(),
        }
        json.dump({**facts, "pid": os.getpid(), "stdin": os.readlink("/proc/self/fd/0")}, file)
    if plan.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    mode = plan["mode"]
    if mode == "die":
        print("the log cannot be opened\nno room on the disk \x1b[31m", file=sys.stderr)
        return 7
    if mode == "garbage":
        os.write(ready_fd, b"hello\n")
        return 0
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "hang":
        signal.pause()
    if mode == "close":
        os.close(ready_fd)
        signal.pause()
    if mode == "refuse":
        _say(ready_fd, error=plan["error"])
        return 1
    return serve(root, ready_fd, plan)


def serve(root: Root, ready_fd: int, plan: dict[str, Any]) -> int:
    os.makedirs(root.join(FOLDER), exist_ok=True)
    lock = os.open(root.join(FOLDER, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say(ready_fd, owned={"pid": int(os.pread(lock, 20, 0) or 0)})
        return 3
    os.pwrite(lock, b"%-20d" % os.getpid(), 0)
    path = os.path.join(ensure_socket_folder(root, os.environ, os.getuid()), "d.sock")
    listener = socket.socket(socket.AF_UNIX)
    if os.path.exists(path):
        os.unlink(path)
    listener.bind(path)
    listener.listen(128)
    started = process_start_time(os.getpid())
    assert started is not None
    locator = Locator(path, os.getpid(), started, boot_id(), os.uname().nodename, "fake", "0.0.1", *plan.get("protocol", (1, 1)))
    with open(root.join(FOLDER, LOCATOR), "wb") as file:
        file.write(locator_bytes(locator))
    if plan.get("lose_socket"):
        os.unlink(path)
        listener.close()
    _say(ready_fd, ready={"socket": path, "pid": os.getpid()})
    if plan.get("lose_socket"):
        signal.pause()
    with open(root.join(".cueloop/starts"), encoding="utf-8") as file:
        number = len(file.readlines())
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=talk, args=(sock, plan, path, number), daemon=True).start()


def talk(sock: socket.socket, plan: dict[str, Any], path: str, number: int) -> None:
    """Answer every request. The first `draining` processes that were started here are shutting down, and leave after saying so."""
    is_draining = number <= plan.get("draining", 0)
    with sock, sock.makefile("rb") as lines:
        for line in lines:
            request = json.loads(line)
            answer: dict[str, Any] = {"result": {"pid": os.getpid(), "method": request["method"]}}
            if is_draining:
                answer = {"error": {"code": -32007, "message": "The daemon is shutting down; nothing was done."}}
            if request["method"] == "daemon.shutdown" and not plan.get("knows_shutdown", True):
                answer = {"error": {"code": -32601, "message": "Method not found"}}
            sock.sendall(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode() + b"\n")
            if is_draining or (request["method"] == "daemon.shutdown" and "result" in answer):
                os.unlink(path)
                os._exit(0)


def _open_files() -> list[str]:
    names = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return names


def _say(fd: int, **message: object) -> None:
    os.write(fd, json.dumps(message).encode() + b"\n")
    os.close(fd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
