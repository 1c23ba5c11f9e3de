"""The same with nothing but `socket` and `json`: one JSON text per line. Usage: subscribe_raw.py [REPOSITORY] [COUNT]

The daemon must run (`cueloop daemon start`); it says where in `locator.json`.
"""

from __future__ import annotations

import json
import pathlib
import socket
import sys


def main(repository: str, count: int) -> None:
    locator = json.loads(pathlib.Path(repository, ".cueloop/cache/cueloopd/locator.json").read_text())
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(locator["socket"])
        request = {"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": {"kinds": ["resume_decision"]}}
        sock.sendall(json.dumps(request).encode() + b"\n")
        for line in sock.makefile("r", encoding="utf-8"):
            message = json.loads(line)
            if message.get("id") == 1:
                if "error" in message:
                    sys.exit(message["error"]["message"])
                state = message["result"]["snapshot"]  # with `error` in place of `document` where a file cannot be used
                told = state.get("error") or state.get("document", {}).get("resume_preview")
                print(told["message"] if told else "No interrupted session.", flush=True)
            elif message.get("method") == "event":
                print(message["params"]["event"]["message"], flush=True)
                count -= 1
            if count == 0:
                return


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else ".", int(sys.argv[2]) if len(sys.argv) > 2 else -1)
    except KeyboardInterrupt:
        sys.exit(130)
    except (FileNotFoundError, ConnectionRefusedError):
        sys.exit("No daemon runs there. Start it: cueloop daemon start")
