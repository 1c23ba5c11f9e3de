"""`daemon status --prometheus`: the text form to the letter, whatever a status has in it, and its page."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.fakes import Recorder, answering, make_world, serving
from cueloop_client.main import run
from cueloop_client.metric_table import LATENCY, METRICS
from cueloop_client.prometheus import exposition
from cueloop_protocol.examples import CALLS
from cueloop_protocol.metrics import Metrics
from cueloop_protocol.results import StatusResult
from cueloop_protocol.roots import Root

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
STATUS: dict[str, Any] = {**CALLS["daemon.status"].result}
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} (\S+)")
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Samples = dict[str, list[tuple[str, dict[str, str], float]]]


def parsed(text: str) -> Samples:
    """Families with their samples (name, labels, value), read by the grammar of the format; fails on anything else."""
    families: Samples = {}
    kinds: dict[str, str] = {}
    current = ""
    assert text.endswith("\n")
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert re.fullmatch(NAME, current)
            assert current not in families, "a family stands in two places"
            families[current] = []
        elif line.startswith("# TYPE "):
            _, _, name, kinds[current] = line.split(" ")
            assert name == current
            assert not families[current], "the type comes before the samples"
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            labels = {name: re.sub(r'\\[\\"n]', lambda m: ESCAPES[m[0]], text) for name, text in re.findall(LABEL, found[2])}
            suffix = found[1].removeprefix(current)
            assert suffix in (("_bucket", "_sum", "_count") if kinds[current] == "histogram" else ("",)), line
            assert math.isfinite(float(found.groups()[-1]))
            families[current].append((found[1], labels, float(found.groups()[-1])))
    for name, samples in families.items():
        keys = [(sample, tuple(sorted(labels.items()))) for sample, labels, _ in samples]
        assert len(keys) == len(set(keys)), f"{name}: two samples with the same labels"
        assert samples, f"{name} has no sample"
        assert (kinds[name] == "counter") == name.endswith("_total")
    return families


def value(families: Samples, name: str, /, **labels: str) -> float:
    (found,) = [number for _, given, number in families[name] if labels.items() <= given.items()]
    return found


def test_every_value_of_a_status_is_where_it_belongs() -> None:
    families = parsed(exposition(STATUS, "/home/ann/shop"))
    assert set(families) == {metric.name for metric in (*METRICS, LATENCY)} - {
        "cueloopd_connections_accepted_total", "cueloopd_connections_refused_total"  # the example does not count them
    }  # fmt: skip
    assert value(families, "cueloopd_up") == 1
    assert value(families, "cueloopd_info", daemon_version="0.1.0", protocol="1", state="serving") == 1
    assert value(families, "cueloopd_requests_total", method="ping") == 28
    assert value(families, "cueloopd_errors_total", name="document_unusable") == 1
    assert value(families, "cueloopd_runs_total", outcome="completed") == 1
    assert value(families, "cueloopd_event_log_degraded") == 0
    assert value(families, "cueloopd_uptime_seconds") == 300.25
    assert all(labels["repository"] == "/home/ann/shop" for samples in families.values() for _, labels, _ in samples)


def test_a_histogram_is_cumulative_and_ends_in_infinity() -> None:
    samples = parsed(exposition(STATUS, "/r"))[LATENCY.name]
    buckets = [(labels["le"], number) for name, labels, number in samples if name.endswith("_bucket")]
    assert buckets == [("0.0001", 88), ("0.005", 119), ("+Inf", 120)]
    assert [number for name, _, number in samples if name.endswith(("_sum", "_count"))] == [0.0521, 120]


def test_without_a_daemon_one_sample_says_so() -> None:
    families = parsed(exposition(None, "/r"))
    assert list(families) == ["cueloopd_up"]
    assert value(families, "cueloopd_up") == 0


@given(st.text(), st.dictionaries(st.text(), st.integers(min_value=0)))
def test_any_text_is_a_label(repository: str, requests: dict[str, int]) -> None:
    families = parsed(exposition({"metrics": {"requests": requests}}, repository))
    told = {labels["method"]: number for _, labels, number in families.get("cueloopd_requests_total", [])}
    assert told == {method: float(number) for method, number in requests.items()}
    assert value(families, "cueloopd_up", repository=repository) == 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["latency", "buckets", "count", "x"]), inner),
    )
)
def test_a_strange_status_is_left_out_and_never_an_error(strange: object) -> None:
    names = ("daemon_version", "protocol", "state", "metrics", "counters", "events", "connections", "snapshots")
    parsed(exposition(dict.fromkeys(names, strange), "/r"))


def test_a_number_of_each_member_of_the_metrics_is_printed() -> None:
    paths = {metric.path[1] for metric in (*METRICS, LATENCY) if metric.path[:1] == ("metrics",)}
    assert paths == set(Metrics.model_fields)
    assert {metric.path[0] for metric in METRICS if metric.path} - {"up"} <= set(StatusResult.model_fields)


def test_the_page_has_each_metric_with_its_kind_and_no_other() -> None:
    rows = dict(re.findall(r"^\| `(cueloopd_\w+)` \| (\w+) \|", PAGE.read_text(), re.M))
    assert rows == {metric.name: metric.kind for metric in (*METRICS, LATENCY)}


def call(root: Root, environ: dict[str, str], line: str) -> tuple[int, Recorder]:
    recorder = Recorder()
    return run(["--repo", root.path, *line.split()], make_world(environ, recorder)), recorder


def test_the_command(root: Root, environ: dict[str, str]) -> None:
    code, told = call(root, environ, "daemon status --prometheus")
    assert (code, parsed(told.out)["cueloopd_up"][0][2]) == (3, 0)
    with serving(root, environ, answering({"daemon.status": json.loads(json.dumps(STATUS))})):
        code, told = call(root, environ, "daemon status --prometheus")
    assert (code, told.err) == (0, "")
    assert value(parsed(told.out), "cueloopd_up", repository=root.path) == 1
    assert call(root, environ, "daemon status --prometheus --json")[0] == 2


@pytest.mark.parametrize("line", ["x 1", 'x{a="b"}', 'x{a="\n"} 1', 'x{a="b"} nan', "# TYPE x counter"])
def test_the_grammar_is_strict(line: str) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError)):
        parsed(f"# HELP x_total X.\n# TYPE x_total counter\n{line}\n")
