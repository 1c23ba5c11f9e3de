"""The bytes that well-known clients send, and what they get back.

`vscode-jsonrpc` writes `Content-Length: N\\r\\n\\r\\n` and reads any header order; older versions also sent a Content-Type. Neovim's
`vim.lsp.rpc` writes the same and leaves `params` out where there are none. Scripts send one line per request.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import anyio
import pytest

from server.world import Client, serving

REQUEST = {"jsonrpc": "2.0", "id": 0, "method": "echo", "params": {"text": "ünï€"}}


def headers(body: bytes, *more: bytes, name: bytes = b"Content-Length") -> bytes:
    return b"".join([name, b": %d\r\n" % len(body), *(line + b"\r\n" for line in more), b"\r\n", body])


BODY = json.dumps(REQUEST, ensure_ascii=False, separators=(",", ":")).encode()


async def raw_message(client: Client) -> tuple[bytes, Any]:
    """The header block and the body of the next message, exactly as they came."""
    data = b""
    with anyio.fail_after(5):
        while b"\r\n\r\n" not in data:
            data += await client.stream.receive(1)
        head, _, _ = data.partition(b"\r\n\r\n")
        size = int(head.removeprefix(b"Content-Length: "))
        body = b""
        while len(body) < size:
            body += await client.stream.receive(size - len(body))
    return head, json.loads(body)


@pytest.mark.parametrize(
    "data",
    [
        headers(BODY),
        headers(BODY, b"Content-Type: application/vscode-jsonrpc; charset=utf-8"),
        headers(BODY, b"Content-Type: application/vscode-jsonrpc;charset=utf8"),
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n" + headers(BODY),
        headers(BODY, name=b"content-length"),
        headers(BODY, name=b"CONTENT-LENGTH"),
        headers(b"\r\n" + BODY + b"\r\n"),
        headers(json.dumps(REQUEST, indent=2).encode()),
    ],
    ids=["vscode", "old vscode", "utf8", "type first", "lower", "upper", "blanks in the body", "pretty"],
)
@pytest.mark.parametrize("size", [1, 2, None])
async def test_messages_with_headers(data: bytes, size: int | None) -> None:
    async with serving() as running, running.client() as client:
        await client.raw(data, size)
        head, body = await raw_message(client)
        assert head.startswith(b"Content-Length: ")
        assert b"\r\n" not in head
        assert body == {"jsonrpc": "2.0", "id": 0, "result": {"text": "ünï€"}}


async def test_the_calls_of_a_vscode_client_in_their_order() -> None:
    """Requests numbered from 0, `$/setTrace` and other notifications that are optional, a cancellation, then an end of the stream."""
    async with serving() as running, running.client() as client:
        for body in (
            b'{"jsonrpc":"2.0","id":0,"method":"ping","params":{}}',
            b'{"jsonrpc":"2.0","method":"$/setTrace","params":{"value":"off"}}',
            b'{"jsonrpc":"2.0","id":1,"method":"wait","params":{"name":"a"}}',
        ):
            await client.raw(headers(body))
        assert (await raw_message(client))[1]["id"] == 0
        await running.world.begins("a").wait()
        await client.raw(headers(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}'))
        answer = (await raw_message(client))[1]
        assert (answer["id"], answer["error"]["code"]) == (1, -32800)
        await client.stream.send_eof()
        assert await client.ended()


async def test_a_neovim_client_leaves_params_out() -> None:
    async with serving() as running, running.client() as client:
        await client.raw(headers(b'{"id":1,"jsonrpc":"2.0","method":"ping"}'))
        assert (await raw_message(client))[1] == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_parameters_as_the_only_item_of_an_array() -> None:
    """What `vscode-jsonrpc` makes of one object with `ParameterStructures.byPosition`."""
    async with serving() as running, running.client() as client:
        await client.raw(headers(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":[{"text":"a"}]}'))
        assert (await raw_message(client))[1]["result"] == {"text": "a"}


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
async def test_a_shell_script_sends_a_line_and_reads_one(ending: bytes) -> None:
    async with serving() as running, running.client() as client:
        await client.raw(BODY + ending)
        await client.stream.send_eof()
        with anyio.fail_after(5):
            assert json.loads(await client.stream.receive()) == {"jsonrpc": "2.0", "id": 0, "result": {"text": "ünï€"}}


async def test_a_program_of_nothing_but_the_standard_library() -> None:
    program = (
        "import json, socket, sys\n"
        "with socket.socket(socket.AF_UNIX) as s:\n"
        "    s.connect(sys.argv[1])\n"
        "    f = s.makefile('rw', encoding='utf-8', newline='\\n')\n"
        "    for n in range(3):\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': n, 'method': 'echo', 'params': {'text': 'x' * n}}), file=f, flush=True)\n"
        "        print(json.loads(f.readline())['result']['text'])\n"
    )
    async with serving() as running:
        done = await anyio.run_process([sys.executable, "-c", program, running.path], stderr=subprocess.STDOUT)
        assert done.stdout == b"\nx\nxx\n"
