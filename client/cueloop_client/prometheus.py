"""The result of `daemon.status` in the text form of Prometheus, version 0.0.4. Standard library only."""

from __future__ import annotations

from cueloop_client.metric_table import LATENCY, METRICS, Metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def exposition(status: Mapping[str, object] | None, repository: str) -> str:
    """Every metric of the table that the status has a value for, each sample labelled with its repository; ends in a line end.

    Without a status, which is a daemon that does not run, `cueloopd_up` alone, 0. What is no finite number is left out.
    """
    common = {"repository": repository}
    lines: list[str] = []
    for metric in METRICS:
        samples = list(_samples(metric, {"up": status is not None, **(status or {})}, common))
        lines += [*_head(metric), *samples] if samples else []
    histogram = _histogram(status or {}, common)
    lines += [*_head(LATENCY), *histogram] if histogram else []
    return "".join(f"{line}\n" for line in lines)


def _head(metric: Metric) -> list[str]:
    help_text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {metric.name} {help_text}", f"# TYPE {metric.name} {metric.kind}"]


def _samples(metric: Metric, status: Mapping[str, object], common: Mapping[str, str]) -> Iterator[str]:
    found = _at(status, metric.path)
    if metric.texts:
        labels = {text: _at(status, (text,)) for text in metric.texts}
        if all(isinstance(value, str | int) for value in labels.values()):
            yield _sample(metric.name, {**common, **{name: str(value) for name, value in labels.items()}}, "1")
    elif metric.label is None:
        if (value := _number(found)) is not None:
            yield _sample(metric.name, common, value)
    elif isinstance(found, dict):
        for key, count in sorted(found.items()):
            if (value := _number(count)) is not None:
                yield _sample(metric.name, {**common, metric.label: str(key)}, value)


def _histogram(status: Mapping[str, object], common: Mapping[str, str]) -> list[str]:
    found = _at(status, LATENCY.path)
    buckets, name = _at(found, ("buckets",)), LATENCY.name
    count, total = _number(_at(found, ("count",))), _number(_at(found, ("sum_seconds",)))
    if not isinstance(buckets, list) or count is None or total is None:
        return []
    edges = [(_number(_at(bucket, ("le_seconds",))), _number(_at(bucket, ("count",)))) for bucket in buckets]
    counted = [_sample(f"{name}_bucket", {**common, "le": edge}, value) for edge, value in edges if edge and value]
    last = _sample(f"{name}_bucket", {**common, "le": "+Inf"}, count)
    return [*counted, last, _sample(f"{name}_sum", common, total), _sample(f"{name}_count", common, count)]


def _sample(name: str, labels: Mapping[str, str], value: str) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value}"


def _escaped(text: str) -> str:
    """Text of any kind as a label's value: valid UTF-8, on one line."""
    text = text.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _at(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _number(value: object) -> str | None:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int) or (isinstance(value, float) and abs(value) < float("inf")):
        return repr(value)
    return None
