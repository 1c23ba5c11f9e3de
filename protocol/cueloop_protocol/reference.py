"""Writes the reference: `python -m cueloop_protocol.reference > docs/protocol.md`; with `--check docs/protocol.md`, compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from cueloop_protocol import codes, examples
from cueloop_protocol.documents.error import ErrorData
from cueloop_protocol.example_values import DOCUMENTS, EVENTS
from cueloop_protocol.framing import MAX_FRAME
from cueloop_protocol.generated import page_command
from cueloop_protocol.methods import ALWAYS, METHODS, MethodSpec
from cueloop_protocol.notifications import NOTIFICATIONS, NotificationSpec
from cueloop_protocol.reference_errors import WHEN
from cueloop_protocol.reference_text import DOCUMENT_MODELS, EVENT_MODELS, INTRODUCTION
from cueloop_protocol.rendering import Shapes, code_block, shortened

NO_REQUEST = (codes.PARSE_ERROR, codes.LIMIT_EXCEEDED)
"""Errors that answer no request in particular: their id is null."""


def reference() -> str:
    """The whole page, as Markdown."""
    shapes = Shapes(
        [model for spec in METHODS.values() for model in (spec.params, spec.result)]
        + [spec.params for spec in NOTIFICATIONS.values()]
        + [*DOCUMENT_MODELS.values(), *EVENT_MODELS.values(), ErrorData]
    )
    return "\n".join(
        [
            INTRODUCTION.format(limit=MAX_FRAME),
            "## Methods\n",
            *(line for name, spec in METHODS.items() for line in _method(name, spec, shapes)),
            "## Notifications\n",
            *(line for name, spec in NOTIFICATIONS.items() for line in _notification(name, spec, shapes)),
            "## Errors\n",
            *_errors(shapes),
            "## Run events\n",
            *_events(shapes),
            "## Documents\n",
            *_documents(shapes),
            "## Shapes\n",
            "What the tables above refer to, in alphabetical order.\n",
            *shapes.rest(),
        ]
    )


def _method(name: str, spec: MethodSpec, shapes: Shapes) -> Iterator[str]:
    call = examples.CALLS[name]
    yield f"### `{name}`\n"
    yield spec.summary + (" **Not in this version yet.**" if spec.is_planned else "") + "\n"
    yield f"**Params.** {shapes.told(spec.params)}"
    yield f"**Result.** {shapes.told(spec.result)}"
    own = ", ".join(f"{code} `{codes.NAMES[code]}`" for code in spec.errors)
    if own:
        yield f"Errors of its own: {own}.\n"
    request = {"jsonrpc": "2.0", "id": 1, "method": name, "params": call.params}
    yield code_block(shortened(request), shortened({"jsonrpc": "2.0", "id": 1, "result": call.result}))


def _notification(name: str, spec: NotificationSpec, shapes: Shapes) -> Iterator[str]:
    yield f"### `{name}`\n"
    yield f"{spec.summary} Sent by the {spec.sender}.\n"
    yield f"**Params.** {shapes.told(spec.params)}"
    yield code_block(shortened({"jsonrpc": "2.0", "method": name, "params": examples.NOTED[name]}))


def _errors(shapes: Shapes) -> Iterator[str]:
    always = ", ".join(f"{code} `{codes.NAMES[code]}`" for code in ALWAYS)
    yield f"Any method may answer with {always}.\n"
    yield "`document` is the code of the error document, which `cueloop machine …` prints.\n"
    yield "| code | name | document | when |\n|---|---|---|---|"
    for error in examples.ERRORS:
        document = "by the file" if error.code == codes.DOCUMENT_UNUSABLE else f"`{error.document['code']}`"
        yield f"| {error.code} | `{error.name}` | {document} | {WHEN[error.code]} |"
    yield "\n`error.data` of each: " + shapes.told(ErrorData)
    for error in examples.ERRORS:
        yield f"### Error {error.code} `{error.name}`\n"
        number = None if error.code in NO_REQUEST else 1
        yield code_block({"jsonrpc": "2.0", "id": number, "error": shortened(error.to_wire())})


def _events(shapes: Shapes) -> Iterator[str]:
    yield "The `event` of an `event` notification, and the lines of `cueloop machine run …`. The kinds are a closed list.\n"
    for kind, model in EVENT_MODELS.items():
        yield f"### Event `{kind}`\n"
        yield shapes.told(model)
        yield code_block(shortened(EVENTS[kind]))


def _documents(shapes: Shapes) -> Iterator[str]:
    for name, model in DOCUMENT_MODELS.items():
        yield f"### Document `{name}`\n"
        yield shapes.told(model)
        whole = DOCUMENTS[name]
        yield code_block(shortened(whole, keep=("config",)) if name == "ResolveDocument" else shortened(whole))


def main(arguments: Sequence[str]) -> int:
    """As `page_command`."""
    return page_command(arguments, reference, "cueloop_protocol.reference")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
