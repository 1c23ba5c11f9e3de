"""What is a person's own is in no dump, wherever it stands: planted secrets, texts of tasks, homes and addresses."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cueloop_daemon.dump.scrub import Scrubber, closed_words
from cueloop_daemon.dump.without import dump_without_daemon
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.dump_results import DumpResult
from cueloop_protocol.private import secret_values
from cueloop_protocol.roots import Caller, Root
from support.repository import Repository, session

NOW = datetime(2026, 2, 7, 10, tzinfo=UTC)
SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=30).map(
    "s3cr\u00e9t-\"{}'-9".format
)


def write_log(repository: Repository, *events: object) -> None:
    path = repository.path / ".cueloop/cache/cueloopd/daemon.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps({'time': 't', 'level': 'info', 'logger': 'l', 'event': event})}\n" for event in events))


def dumped(repository: Repository, home: Path, environ: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """The dump as its bytes are read by anybody, and as values, which fit the model."""
    root = Root(str(repository.path), str(repository.path))
    data = dump_without_daemon(root, Caller(str(home), None), environ, NOW)
    DumpResult.model_validate_json(data)
    values = json.loads(data)
    return json.dumps(values, ensure_ascii=False), values


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(secret=SECRETS, place=st.sampled_from(["title", "plan", "session", "environ", "config", "comment", "settings", "prompt"]))
def test_a_planted_secret_is_nowhere(tmp_path_factory: pytest.TempPathFactory, secret: str, place: str) -> None:
    folder = tmp_path_factory.mktemp("secret")
    repository, home = Repository(folder / "repo").lay(), folder / "home"
    (home / ".config/cueloop").mkdir(parents=True)
    environ = {"PATH": "/bin", "HOME": str(home)}
    queue = json.loads(repository.queue.read_text())
    match place:
        case "title":
            queue["tasks"][0]["title"] = f"Do {secret} now"
            repository.queue.write_text(json.dumps(queue))
        case "plan":
            queue["tasks"][0]["plan"] = ["first", secret]
            repository.queue.write_text(json.dumps(queue, ensure_ascii=False))
        case "session":
            repository.put(repository.session, session(model=secret))
        case "environ":
            environ["ANYTHING"] = secret
        case "config":
            repository.config.write_text(json.dumps({"agent": {"runner": "codex", "webhook": {"secret": secret}}}))
        case "comment":
            repository.config.write_text(f'{{"agent": {{}}}} // {secret}\n')
        case "settings":
            (home / ".config/cueloop/cueloopd.jsonc").write_text(json.dumps({"fleet": {"key": secret}}))
        case "prompt":
            (repository.path / ".cueloop/prompts").mkdir()
            (repository.path / ".cueloop/prompts/plan.md").write_text(f"Think of this first: {secret}, and then\n")
    said = f"Think of this first: {secret}, and then" if place == "prompt" else f"Do {secret} now" if place == "title" else secret
    write_log(repository, f"an agent said: {said}", secret if place != "prompt" else said)
    text, values = dumped(repository, home, environ)
    assert secret not in text
    assert len(values["log"]) == 2
    assert (place == "environ") == ("ANYTHING" in values["environment"])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/home/ann/shop/x", "~/shop/x"),
        ("in /home/ann: no", "in ~: no"),
        ("/home/anna/x", "/home/anna/x"),
        ("mail ann.b+c@example.co.uk, please", "mail <e-mail>, please"),
        ("Authorization: Bearer abcdefgh1234", "Authorization: [REDACTED]"),
        ("password=hunter22 next", "password=[REDACTED] next"),
        ("https://u:hunter22@host/x", "https://u:[REDACTED]@host/x"),
        ("ghp_abcdefghijklmn", "[REDACTED]"),
        ("known-text here", "[REDACTED] here"),
        ("nul\x00byte", "nul\ufffdbyte"),
        ("missing", "missing"),
    ],
)
def test_what_is_told_instead(said: str, told: str) -> None:
    scrub = Scrubber.of(["/home/ann/", "relative", "/"], ["known-text", "short", "known", "missing", "      "])
    assert scrub.value({"k": [said, 5, None, True]}) == {"k": [told, 5, None, True]}


@given(st.lists(st.text(max_size=8)), st.lists(st.text(max_size=8)))
def test_any_texts_stay_as_many_and_hold_nothing_known(texts: list[str], known: list[str]) -> None:
    scrub = Scrubber.of([], known)
    clean = scrub.all(texts)
    assert len(clean) == len(texts)
    for text in clean:
        assert text in closed_words() or not any(secret in text.replace("[REDACTED]", "\n") for secret in scrub.texts)


def test_words_of_closed_lists_stand_for_themselves() -> None:
    assert {"missing", "file", "waiting", "serving", "inotify"} <= closed_words()


def test_only_what_is_known_to_be_public_is_no_secret_of_an_environment() -> None:
    environ = {"PATH": "/bin", "LC_ALL": "C", "XDG_RUNTIME_DIR": "/run", "MY_KEY": "k", "EMPTY": ""}
    assert secret_values(environ) == ["k", ""]


def test_a_secret_that_is_a_word_of_ours_breaks_nothing(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repo").lay()
    words = sorted(closed_words() | set(DumpResult.model_fields))
    write_log(repository, *words)
    text, values = dumped(repository, tmp_path, {f"V{number}": word for number, word in enumerate(words)})
    assert {fact["kind"] for fact in values["files"]} >= {"file", "missing", "folder"}
    assert text


def test_names_of_files_of_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"b\xffd\n")
    repository = Repository(path).lay()
    _, values = dumped(repository, tmp_path / "home", {})
    assert any("\ufffd" in fact["path"] for fact in values["files"])
    assert to_json_bytes(DumpResult.model_validate_json(json.dumps(values)))
