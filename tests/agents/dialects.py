"""How four model APIs speak: what a request says, and the bytes of an answer or of a failure.

Pure functions over parsed JSON. Each dialect streams one text answer as server-sent events in the shapes its own clients accept; nothing
here offers or calls tools. `standin.py` serves them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Any
"""Parsed JSON of a foreign protocol: looked into piece by piece, never trusted."""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation as the model was shown it; `role` in the API's own word."""

    role: str
    text: str


def _texts(content: Json) -> Iterator[str]:
    """The text parts of a message's content, in any of the shapes in use: a string, parts, or one part."""
    match content:
        case str():
            yield content
        case list():
            for part in content:
                yield from _texts(part)
        case {"text": str(text)}:
            yield text
        case {"parts": parts}:
            yield from _texts(parts)
        case {"content": inner}:
            yield from _texts(inner)


def turns_of(messages: Json) -> tuple[Turn, ...]:
    """The messages of a request as turns; one without text is left out, so is anything that is no message."""
    found: list[Turn] = []
    for message in messages if isinstance(messages, list) else [messages]:
        text = "\n".join(_texts(message))
        if text:
            role = message.get("role", "user") if isinstance(message, Mapping) else "user"
            found.append(Turn(str(role), text))
    return tuple(found)


def _named(name: str, body: Mapping[str, Json]) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **body})}\n\n".encode()


def _data(body: Json) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


def anthropic_events(text: str, model: str, number: int) -> Iterator[bytes]:
    message = {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": model, "content": []}
    usage = {"input_tokens": 10, "output_tokens": 1}
    yield _named("message_start", {"message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}})
    yield _named("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    yield _named("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}})
    yield _named("content_block_stop", {"index": 0})
    yield _named("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 5}})
    yield _named("message_stop", {})


def anthropic_whole(text: str, model: str, number: int) -> Json:
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _response(text: str, model: str, number: int) -> Json:
    item = {
        "type": "message",
        "id": f"item_{number:04}",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    return {
        "id": f"resp_{number:04}",
        "object": "response",
        "model": model,
        "status": "completed",
        "output": [item],
        "usage": usage,
    }


def responses_events(text: str, model: str, number: int) -> Iterator[bytes]:
    whole = _response(text, model, number)
    item = whole["output"][0]
    yield _named("response.created", {"response": whole | {"status": "in_progress", "output": [], "usage": None}})
    yield _named("response.output_item.added", {"output_index": 0, "item": item | {"status": "in_progress", "content": []}})
    yield _named("response.output_text.delta", {"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": text})
    yield _named("response.output_item.done", {"output_index": 0, "item": item})
    yield _named("response.completed", {"response": whole})


def chat_events(text: str, model: str, number: int) -> Iterator[bytes]:
    head = {"id": f"chatcmpl-{number:04}", "object": "chat.completion.chunk", "created": 1, "model": model}
    yield _data(head | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
    yield _data(head | {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield _data(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
    yield b"data: [DONE]\n\n"


def chat_whole(text: str, model: str, number: int) -> Json:
    return {
        "id": f"chatcmpl-{number:04}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def gemini_whole(text: str, model: str, number: int) -> Json:
    return {
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": model,
        "responseId": f"answer-{number:04}",
    }


def gemini_events(text: str, model: str, number: int) -> Iterator[bytes]:
    yield _data(gemini_whole(text, model, number))


WORDS: Mapping[int, tuple[str, str, str, str]] = {
    400: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", "The request is not valid."),
    401: ("authentication_error", "invalid_api_key", "UNAUTHENTICATED", "The API key is not valid."),
    403: ("permission_error", "forbidden", "PERMISSION_DENIED", "The key may not do this."),
    429: ("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "Too many requests."),
    500: ("api_error", "server_error", "INTERNAL", "Something went wrong."),
    503: ("overloaded_error", "server_error", "UNAVAILABLE", "The service is not available."),
    529: ("overloaded_error", "server_error", "UNAVAILABLE", "Overloaded."),
}
"""Status → Anthropic's error type, OpenAI's error code, Google's status, a sentence."""


def anthropic_error(status: int) -> Json:
    kind, _, _, text = WORDS[status]
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_0001"}


def openai_error(status: int) -> Json:
    _, code, _, text = WORDS[status]
    return {"error": {"message": text, "type": code, "param": None, "code": code}}


def gemini_error(status: int) -> Json:
    _, _, name, text = WORDS[status]
    return {"error": {"code": status, "message": text, "status": name}}


@dataclass(frozen=True)
class Dialect:
    """One API: `events` streams an answer, `whole` is the same answer unstreamed, `error` a failure's body."""

    name: str
    messages: str
    events: Callable[[str, str, int], Iterator[bytes]]
    whole: Callable[[str, str, int], Json]
    error: Callable[[int], Json]

    def turns(self, body: Mapping[str, Json]) -> tuple[Turn, ...]:
        return turns_of(body.get(self.messages, []))

    def is_side_talk(self, body: Mapping[str, Json]) -> bool:
        """True for what a CLI asks beside the conversation (a title, a routing question): it offers the model no tools."""
        return not body.get("tools")


ANTHROPIC = Dialect("anthropic", "messages", anthropic_events, anthropic_whole, anthropic_error)
RESPONSES = Dialect("responses", "input", responses_events, _response, openai_error)
CHAT = Dialect("chat", "messages", chat_events, chat_whole, openai_error)
GEMINI = Dialect("gemini", "contents", gemini_events, gemini_whole, gemini_error)
DIALECTS: Sequence[Dialect] = (ANTHROPIC, RESPONSES, CHAT, GEMINI)


def dialect_of(path: str) -> Dialect | None:
    """The API that a POST to `path` (without its query) belongs to; None: none of ours."""
    if path.endswith("/messages"):
        return ANTHROPIC
    if path.endswith("/responses"):
        return RESPONSES
    if path.endswith("/chat/completions"):
        return CHAT
    if path.endswith((":streamGenerateContent", ":generateContent")):
        return GEMINI
    return None
