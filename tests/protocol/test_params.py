"""Params: what is refused, and at which path; what `hello` and `daemon.shutdown` read over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cueloop_protocol import params
from cueloop_protocol.base import PATTERNS, JsonObject, Wire, dump, problems
from cueloop_protocol.methods import METHODS, MethodSpec
from cueloop_protocol.notifications import NOTIFICATIONS
from cueloop_protocol.overrides import Overrides
from cueloop_protocol.params import CancelParams, HandoverParams, HelloParams, RunRequest, RunStartParams, ShutdownParams

REQUIRED = {
    "client": {"name": "x"},
    "protocol": {"min": 1, "max": 1},
    "etag": "e",
    "request": {"mode": "one"},
    "mode": "one",
    "run_id": "r",
    "question_id": "q",
    "choice": "keep",
    "subscription": "s",
    "active_window": True,
    "version": "0.1.0",
    "events_schema": 1,
    "runs_schema": 1,
    "record": 1,
    "heir": {"pid": 2, "socket": "/s", "token": "t"},
}
"""A value for each key that some method must have."""


def complaint(model: type[Wire], value: object) -> list[dict[str, str]]:
    """What is wrong with the value; AssertionError if nothing is."""
    try:
        read = model.model_validate(value)
    except ValidationError as error:
        return problems(error)
    raise AssertionError(f"accepted: {read!r}")


REFUSED = [
    ("hello", {"protocol": {"min": 1, "max": 1}}, "client"),
    ("hello", {"client": {"name": "x"}}, "protocol"),
    ("hello", {"client": {"name": " "}, "protocol": {"min": 1, "max": 1}}, "client.name"),
    ("hello", {"client": {"name": "x"}, "protocol": {"min": 0, "max": 1}}, "protocol.min"),
    ("hello", {"client": {"name": "x"}, "protocol": {"min": 1, "max": 1}, "documents": {"a": [True]}}, "documents.a[0]"),
    ("ping", {"x": 1}, "x"),
    ("ping", [], ""),
    ("config.resolve", {"task_id": ""}, "task_id"),
    ("config.resolve", {"task_id": "  "}, "task_id"),
    ("config.resolve", {"task_id": 5}, "task_id"),
    ("config.resolve", {"resume": 1}, "resume"),
    ("config.resolve", {"resume": "true"}, "resume"),
    ("config.resolve", {"exact": 0}, "exact"),
    ("config.resolve", {"surplus": None}, "surplus"),
    ("config.resolve", {"caller": {}}, "caller.home"),
    ("config.resolve", {"caller": {"home": "relative"}}, "caller.home"),
    ("config.resolve", {"caller": {"home": "/a\0b"}}, "caller.home"),
    ("config.resolve", {"caller": {"home": "/a", "config_home": ""}}, "caller.config_home"),
    ("config.resolve", {"caller": {"home": "/a", "xdg": "/b"}}, "caller.xdg"),
    ("workspace.overview", {"fresh": True}, "fresh"),
    ("session.clear", {}, "etag"),
    ("session.clear", {"etag": ""}, "etag"),
    ("resume.preview", {}, "request"),
    ("resume.preview", {"request": {}}, "request.mode"),
    ("resume.preview", {"request": {"mode": "two"}}, "request.mode"),
    ("resume.preview", {"request": {"mode": "one", "answer": {"choice": "maybe", "session_etag": "e"}}}, "request.answer.choice"),
    ("resume.preview", {"request": {"mode": "one", "answer": {"choice": "fresh"}}}, "request.answer.session_etag"),
    ("resume.preview", {"request": {"mode": "one", "max_tasks": 1}}, "request.max_tasks"),
    ("run.start", {"mode": "loop", "max_tasks": -1}, "max_tasks"),
    ("run.start", {"mode": "loop", "max_tasks": 2**32}, "max_tasks"),
    ("run.start", {"mode": "loop", "max_tasks": 2.0}, "max_tasks"),
    ("run.start", {"mode": "one", "overrides": {"phases": 4}}, "overrides.phases"),
    ("run.start", {"mode": "one", "overrides": {"phase2": {"effort": "huge"}}}, "overrides.phase2.effort"),
    ("run.start", {"mode": "one", "env": {"A=B": "1"}}, "env.A=B"),
    ("run.start", {"mode": "one", "env": {"A": 1}}, "env.A"),
    ("run.start", {"mode": "one", "env": {"A": "x\0"}}, "env.A"),
    ("run.start", {"mode": "one", "idempotency_key": ""}, "idempotency_key"),
    ("run.answer", {"run_id": "r", "question_id": "q"}, "choice"),
    ("run.list", {"limit": 0}, "limit"),
    ("run.list", {"limit": 501}, "limit"),
    ("run.output", {"run_id": "r", "offset": -1}, "offset"),
    ("run.output", {"run_id": "r", "limit": 3}, "limit"),
    ("events.subscribe", {"cursor": "7"}, "cursor"),
    ("events.subscribe", {"cursor": "e:01"}, "cursor"),
    ("events.subscribe", {"cursor": {"epoch": "e", "seq": 1}}, "cursor"),
    ("events.subscribe", {"kinds": ["run_finished"]}, "kinds[0]"),
    ("events.subscribe", {"kinds": "warning"}, "kinds"),
    ("events.unsubscribe", {}, "subscription"),
    ("client.state", {"active_window": 0}, "active_window"),
    ("daemon.shutdown", {"runs": "kill"}, "runs"),
]


@pytest.mark.parametrize(("method", "value", "path"), REFUSED)
def test_bad_params_are_refused_by_path(method: str, value: object, path: str) -> None:
    assert [problem["path"] for problem in complaint(METHODS[method].params, value)] == [path]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"mode": "loop", "task_id": "CL-1"}, "task_id goes with mode one only"),
        ({"mode": "resume", "task_id": "CL-1"}, "task_id goes with mode one only"),
        ({"mode": "one", "fresh": True, "resume": True}, "fresh contradicts resume"),
        ({"mode": "resume", "fresh": True}, "fresh contradicts resume"),
        ({"mode": "one", "fresh": True, "answer": {"choice": "fresh", "session_etag": "e"}}, "give one of fresh and answer"),
    ],
)
@pytest.mark.parametrize("model", [RunRequest, RunStartParams])
def test_contradictory_wishes_are_refused(model: type[Wire], value: JsonObject, text: str) -> None:
    assert text in complaint(model, value)[0]["message"]


def test_a_limit_of_tasks_is_for_loops() -> None:
    assert "max_tasks goes with modes loop" in complaint(RunStartParams, {"mode": "one", "max_tasks": 1})[0]["message"]
    assert RunStartParams(mode="resume", max_tasks=0).max_tasks == 0


@pytest.mark.parametrize(("phases", "fits"), [(None, True), (1, True), (2, False), (3, False)])
def test_quick_is_one_phase(phases: int | None, fits: bool) -> None:
    value = {"quick": True, "phases": phases}
    if fits:
        assert Overrides.model_validate(value).quick
    else:
        assert "quick means one phase" in complaint(Overrides, value)[0]["message"]


def patterns_in(schema: object) -> Iterator[str]:
    """Every pattern of a JSON schema."""
    if isinstance(schema, dict):
        yield from (value for key, value in schema.items() if key == "pattern" and isinstance(value, str))
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from patterns_in(part)


@pytest.mark.parametrize("spec", METHODS.values(), ids=METHODS)
def test_no_regular_expression_is_shown(spec: MethodSpec) -> None:
    assert set(patterns_in(spec.params.model_json_schema())) <= set(PATTERNS)


@pytest.mark.parametrize(
    ("method", "value", "words"),
    [
        ("config.resolve", {"task_id": " "}, "not blank"),
        ("config.resolve", {"caller": {"home": "x"}}, "absolute path"),
        ("events.subscribe", {"cursor": "x"}, "epoch:seq"),
        ("run.start", {"mode": "one", "env": {"a=b": "c"}}, "without ="),
        ("run.start", {"mode": "one", "env": {"a": "\0"}}, "zero bytes"),
    ],
)
def test_a_form_is_told_in_words(method: str, value: JsonObject, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        METHODS[method].params.model_validate(value)
    (problem,) = problems(caught.value)
    assert words in problem["message"]


@pytest.mark.parametrize("spec", METHODS.values(), ids=METHODS)
def test_null_means_left_out_for_every_key_that_may_be(spec: MethodSpec) -> None:
    required = {name: value for name, value in REQUIRED.items() if name in spec.params.model_fields}
    optional = [name for name, field in spec.params.model_fields.items() if not field.is_required()]
    bare = spec.params.model_validate({name: required[name] for name in required if name not in optional})
    assert spec.params.model_validate({**required, **dict.fromkeys(optional)}) == bare


def test_the_environment_of_an_agent_is_not_in_a_repr() -> None:
    start = RunStartParams(mode="one", env={"TOKEN": "hunter2"})
    assert "hunter2" not in repr(start)
    assert start.env == {"TOKEN": "hunter2"}


OPEN = (HelloParams, ShutdownParams, HandoverParams)
"""Asked between different versions: what a newer one adds is read over."""


@pytest.mark.parametrize("method", [name for name, spec in METHODS.items() if spec.params not in OPEN])
def test_a_key_that_is_not_known_is_refused(method: str) -> None:
    paths = [problem["path"] for problem in complaint(METHODS[method].params, {"no such key": 1})]
    assert "no such key" in paths


def test_d12_hello_and_shutdown_read_over_what_a_newer_client_sends() -> None:
    later = {"min": 2, "max": 3, "preview": True}
    hello = HelloParams.model_validate({"client": {"name": "x", "os": "mac"}, "protocol": later, "locale": "de"})
    assert dump(hello) == {"client": {"name": "x"}, "protocol": {"min": 2, "max": 3}}
    assert ShutdownParams.model_validate({"when": "idle"}) == ShutdownParams()


@pytest.mark.parametrize("number", [0, "", 1.5, None, "a", -1, 2**53])
def test_any_id_can_be_cancelled(number: object) -> None:
    value = CancelParams.model_validate({"id": number}).id
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize("number", [True, [], {}])
def test_what_is_no_id_cannot_be_cancelled(number: object) -> None:
    assert {problem["path"].split(".")[0] for problem in complaint(CancelParams, {"id": number})} == {"id"}


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(METHODS)), st.data())
def test_any_params_are_read_or_refused_with_a_path(method: str, data: st.DataObject) -> None:
    model = METHODS[method].params
    names = st.sampled_from([*model.model_fields, "surplus"])
    value = data.draw(st.dictionaries(names, ANY, max_size=4))
    found: list[dict[str, str]] = []
    try:
        read = model.model_validate(value)
    except ValidationError as error:
        found = problems(error)
    else:
        assert model.model_validate(dump(read)) == read
        return
    assert found
    assert all(problem["message"] for problem in found)


def test_every_model_says_what_it_is() -> None:
    models = [*(m for spec in METHODS.values() for m in (spec.params, spec.result)), *(n.params for n in NOTIFICATIONS.values())]
    assert all(issubclass(model, Wire) and model.__doc__ for model in models)
    assert all(isinstance(spec, MethodSpec) and spec.summary.endswith(".") for spec in METHODS.values())


def test_every_class_of_params_is_used() -> None:
    used = {spec.params for spec in METHODS.values()} | {CancelParams}
    parts = {params.CallerParams, params.HeirParams}
    named = {value for name, value in vars(params).items() if name.endswith("Params")}
    assert named - parts == used
