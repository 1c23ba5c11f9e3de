"""The stand-in for the model APIs: what it answers, what it remembers."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agents.dialects import DIALECTS, WORDS, Dialect, Turn, dialect_of, turns_of
from agents.standin import Cut, Failure, Held, StandIn, Text

PATHS = {
    "anthropic": "/v1/messages?beta=true",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/some-model:streamGenerateContent?alt=sse",
}
TOOLS = [{"name": "read"}]
BODIES: dict[str, Any] = {
    "anthropic": {"model": "m", "stream": True, "tools": TOOLS, "messages": [{"role": "user", "content": "hello"}]},
    "responses": {"model": "m", "stream": True, "tools": TOOLS, "input": [{"role": "user", "content": [{"text": "hello"}]}]},
    "chat": {
        "model": "m",
        "stream": True,
        "tools": TOOLS,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    },
    "gemini": {"tools": TOOLS, "contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
}
EVERY_DIALECT = pytest.mark.parametrize("dialect", [pytest.param(one, id=one.name) for one in DIALECTS])


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn() as served:
        yield served


def post(stand_in: StandIn, path: str, body: object, *, chunked: bool = False) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", stand_in.port, timeout=10)
    raw = json.dumps(body).encode()
    connection.request("POST", path, body=iter([raw[:5], raw[5:]]) if chunked else raw, encode_chunked=chunked)
    answer = connection.getresponse()
    with answer:
        got = answer.read()
    connection.close()
    return answer.status, got


def data_of(stream: bytes) -> list[Any]:
    found = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(text) for text in found if text != "[DONE]"]


@EVERY_DIALECT
def test_an_answer_is_streamed_and_the_question_is_remembered(stand_in: StandIn, dialect: Dialect) -> None:
    stand_in.play(Text("Marigold."))
    status, stream = post(stand_in, PATHS[dialect.name], BODIES[dialect.name])
    assert status == 200
    assert any("Marigold." in json.dumps(event) for event in data_of(stream))
    (asked,) = stand_in.asked
    assert (asked.dialect, asked.turns) == (dialect.name, (Turn("user", "hello"),))


@EVERY_DIALECT
@pytest.mark.parametrize("status", sorted(WORDS))
def test_a_failure_has_the_status_and_the_sentence_of_its_api(stand_in: StandIn, dialect: Dialect, status: int) -> None:
    stand_in.play(Failure(status))
    got, body = post(stand_in, PATHS[dialect.name], BODIES[dialect.name])
    assert got == status
    assert json.loads(body)["error"]["message"] == WORDS[status][3]


@EVERY_DIALECT
def test_a_cut_answer_lacks_its_end(stand_in: StandIn, dialect: Dialect) -> None:
    stand_in.play(Text("Marigold."), Cut("Marigold."))
    _, whole = post(stand_in, PATHS[dialect.name], BODIES[dialect.name])
    _, cut = post(stand_in, PATHS[dialect.name], BODIES[dialect.name])
    assert 0 < len(cut) < len(whole)
    assert b"Marigold." not in cut


def test_a_held_answer_ends_when_it_is_released(stand_in: StandIn) -> None:
    stand_in.play(Held("Marigold."))
    got: list[bytes] = []
    asking = threading.Thread(target=lambda: got.append(post(stand_in, PATHS["chat"], BODIES["chat"])[1]))
    asking.start()
    assert not got
    stand_in.release()
    asking.join(timeout=10)
    assert b"Marigold." in got[0]


def test_answers_come_in_turn_and_side_talk_does_not_use_one_up(stand_in: StandIn) -> None:
    stand_in.play(Text("first"), Text("second"))
    title = {name: value for name, value in BODIES["chat"].items() if name != "tools"}
    answers = [post(stand_in, PATHS["chat"], body)[1] for body in (title, BODIES["chat"], title, BODIES["chat"], BODIES["chat"])]
    assert [b"first" in one for one in answers] == [True, True, False, False, False]
    assert [b"second" in one for one in answers] == [False, False, True, True, True]
    assert len(stand_in.asked) == 3
    assert len(stand_in.all_asked) == 5


@EVERY_DIALECT
def test_an_answer_that_is_not_streamed_is_one_document(stand_in: StandIn, dialect: Dialect) -> None:
    stand_in.play(Text("Marigold."))
    body = {name: value for name, value in BODIES[dialect.name].items() if name != "stream"}
    status, raw = post(stand_in, PATHS[dialect.name].replace(":streamGenerateContent?alt=sse", ":generateContent"), body)
    assert status == 200
    assert "Marigold." in json.dumps(json.loads(raw))


def test_a_request_in_chunks_is_read_whole(stand_in: StandIn) -> None:
    assert post(stand_in, PATHS["chat"], BODIES["chat"], chunked=True)[0] == 200
    assert stand_in.asked[0].said == "hello"


def test_what_is_meant_for_elsewhere_is_refused_and_remembered(stand_in: StandIn) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", stand_in.port, timeout=10)
    connection.request("GET", "http://elsewhere.example/news")
    with connection.getresponse() as answer:
        assert answer.status == 403
    connection.close()
    tunnel = http.client.HTTPConnection("127.0.0.1", stand_in.port, timeout=10)
    tunnel.set_tunnel("other.example", 443)
    with pytest.raises(OSError, match="403"):
        tunnel.request("GET", "/")
    assert list(stand_in.strangers) == ["elsewhere.example", "other.example:443"]
    stand_in.forget()
    assert not stand_in.strangers


def test_an_unknown_path_is_not_found(stand_in: StandIn) -> None:
    assert post(stand_in, "/v1/nothing", {})[0] == 404
    assert stand_in.all_asked == ()


@pytest.mark.parametrize(
    ("messages", "turns"),
    [
        pytest.param("hello", (Turn("user", "hello"),), id="a text alone"),
        pytest.param([{"role": "model", "parts": [{"text": "a"}, {"text": "b"}]}], (Turn("model", "a\nb"),), id="parts"),
        pytest.param(
            [{"type": "function_call", "name": "x"}, {"role": "user", "content": "c"}],
            (Turn("user", "c"),),
            id="calls are left out",
        ),
        pytest.param([7, None], (), id="no messages"),
    ],
)
def test_a_history_is_read_in_every_shape(messages: object, turns: tuple[Turn, ...]) -> None:
    assert turns_of(messages) == turns


def test_every_api_has_one_dialect() -> None:
    assert [dialect_of(path.partition("?")[0]) for path in PATHS.values()] == list(DIALECTS)
    assert dialect_of("/v1/models") is None
