"""Options of runs: what they ask for, which contradict each other, and that the daemon understands all of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_client.argv import GLOBAL, Ours, PassedOn, Wrong, meaning
from cueloop_client.failures import Usage
from cueloop_client.flags import parse
from cueloop_client.run_request import NUMBERS, OPPOSITES, SWITCHED_ON, TEXTS, WORDS, agents_environment, run_params
from cueloop_client.table import COMMANDS
from cueloop_protocol.overrides import Overrides
from cueloop_protocol.params import RunStartParams

RUNS = {words: command for words, command in COMMANDS.items() if words[-1] in ("one", "loop", "resume")}


def asked(line: str, *, interactive: bool = False) -> dict[str, Any]:
    """The params for a command line of ours."""
    told = meaning(line.split())
    assert isinstance(told, Ours)
    values = parse((*GLOBAL, *COMMANDS[told.command].flags), told.argv)
    return run_params(told.command[-1], values, interactive=interactive)


@pytest.mark.parametrize(
    ("line", "params"),
    [
        ("run one", {"mode": "one"}),
        ("run resume --max-tasks 3", {"mode": "resume", "max_tasks": 3}),
        ("run loop --max-tasks 0 --fresh", {"mode": "loop", "max_tasks": 0, "fresh": True}),
        ("machine run loop --resume", {"mode": "loop", "resume": True}),
        ("run one --id RQ-1 --force", {"mode": "one", "task_id": "RQ-1", "force": True}),
        ("run one --quick --phases 1", {"mode": "one", "overrides": {"quick": True, "phases": 1}}),
        ("run one --no-notify --notify-fail", {"mode": "one", "overrides": {"notify": False, "notify_fail": True}}),
        ("run one -e xhigh", {"mode": "one", "overrides": {"effort": "xhigh"}}),
        (
            "run one --runner-phase1 kimi --effort-phase1 low --model-phase3 m",
            {"mode": "one", "overrides": {"phase1": {"runner": "kimi", "effort": "low"}, "phase3": {"model": "m"}}},
        ),
        ("run loop --git-publish-mode commit-and-push", {"mode": "loop", "overrides": {"git_publish_mode": "commit_and_push"}}),
        ("run loop --wait-timeout-seconds 0", {"mode": "loop", "overrides": {"wait_timeout_seconds": 0}}),
        ("run one --no-progress --auto-fix --no-sanity-checks --color never", {"mode": "one"}),
    ],
)
def test_what_options_ask_for(line: str, params: dict[str, Any]) -> None:
    assert asked(line) == params


def test_somebody_can_be_asked() -> None:
    assert asked("run one", interactive=True) == {"mode": "one", "interactive": True}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run one --resume --fresh", "contradict each other"),
        ("run one --quick --phases 2", "--quick is one phase"),
        ("run one --phases 4", "--phases takes a number from 1 to 3, not 4"),
        ("run one --effort huge", "--effort takes low, medium, high or xhigh, not 'huge'"),
        ("run one --effort-phase2 huge", "--effort-phase2 takes low"),
        ("run one --notify --no-notify", "--notify and --no-notify contradict"),
        ("run loop --wait-poll-ms 0", "from 1 to 999999999, not 0"),
        ("run loop --max-tasks -1", "--max-tasks takes a number"),
        ("run one --max-tasks 1", "There is no option --max-tasks"),
        ("run loop --id x", "There is no option --id"),
        ("run resume --resume", "There is no option --resume"),
        ("machine run one --detach", "There is no option --detach"),
        ("machine run one --dry-run", "There is no option --dry-run"),
        ("run one --runner=", "--runner needs a value"),
    ],
)
def test_mistakes(line: str, said: str) -> None:
    with pytest.raises(Usage) as caught:
        asked(line)
    assert said in caught.value.message


def test_text_that_is_no_utf_8_is_wrong_usage() -> None:
    values = parse(COMMANDS["run", "one"].flags, ["--id", "\udcff"])
    with pytest.raises(Usage, match="--id takes text in UTF-8"):
        run_params("one", values, interactive=False)


@pytest.mark.parametrize("words", sorted(RUNS))
def test_every_setting_of_the_protocol_has_its_option(words: tuple[str, ...]) -> None:
    names = {flag.name for flag in RUNS[words].flags}
    for setting in Overrides.model_fields:
        wanted = [f"{part}-{setting}" for part in ("runner", "model", "effort")] if setting.startswith("phase") else [setting]
        if setting != "phases":
            assert {name.replace("_", "-") for name in wanted} <= names, setting


def test_every_option_has_a_meaning() -> None:
    known = {*TEXTS, *WORDS, *NUMBERS, *SWITCHED_ON, *OPPOSITES, *(f"no-{name}" for name in OPPOSITES)}
    known |= {"resume", "fresh", "force", "id", "max-tasks", "non-interactive", "dry-run", "detach", "no-progress"}
    for command in RUNS.values():
        for flag in command.flags:
            assert flag.name in known or flag.name[:-1].endswith("-phase"), flag.name


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A run with any options, each with a value that may or may not be a good one."""
    words, command = draw(st.sampled_from(sorted(RUNS.items())))
    argv = list(words)
    for flag in draw(st.lists(st.sampled_from(command.flags), max_size=6)):
        argv.append(f"--{flag.name}")
        if flag.value is not None:
            allowed = WORDS.get(flag.name, ("low",))
            argv.append(draw(st.sampled_from([*allowed, "1", "3", "0", "RQ-1", " ", "é", "\udcff", "YOLO"])))
    return argv


@given(command_lines(), st.booleans())
def test_whatever_is_sent_is_understood_by_the_daemon(argv: list[str], interactive: bool) -> None:
    told = meaning(argv)
    assert isinstance(told, Ours)
    try:
        values = parse((*GLOBAL, *COMMANDS[told.command].flags), told.argv)
        params = run_params(told.command[-1], values, interactive=interactive)
    except Usage:
        return
    RunStartParams.model_validate(params, strict=True)


class TestEnvironment:
    def test_it_is_sent_whole(self) -> None:
        assert agents_environment({"A": "1", "EMPTY": "", "É": "é\n"}) == ({"A": "1", "EMPTY": "", "É": "é\n"}, [])

    def test_what_is_no_utf_8_is_named(self) -> None:
        assert agents_environment({"A": "\udcff", "\udc80": "x", "B": "2"}) == ({"B": "2"}, ["A", "\udc80"])

    @given(st.dictionaries(st.text(), st.text().filter(lambda value: "\0" not in value)))
    def test_the_daemon_takes_what_is_sent(self, environ: dict[str, str]) -> None:
        sent, _ = agents_environment({name: value for name, value in environ.items() if "\0" not in name})
        assert RunStartParams(mode="one", env=sent).env == sent


class TestParallel:
    @pytest.mark.parametrize(
        "line", ["run loop --parallel", "run loop --parallel 3 --max-tasks 2", "machine run loop --parallel=3"]
    )
    def test_a_parallel_loop_is_passed_on_untouched(self, line: str) -> None:
        name = line.partition(" --")[0]
        assert meaning(["--no-color", *line.split()]) == PassedOn(f"{name} --parallel", ("--no-color", *line.split()))

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("run loop --parallel --resume", "--parallel and --resume contradict each other"),
            ("run one --parallel", "only a loop can be parallel"),
            ("machine run one --parallel 2", "only a loop can be parallel"),
            ("run resume --parallel", "only a loop can be parallel"),
            ("run loop --fresh --parallel", "--fresh does not go with --parallel"),
            ("run loop --detach --parallel", "--detach does not go with --parallel"),
            ("--repo=/x run loop --parallel", "--repo does not go with --parallel"),
            ("run loop --parallel --json", "--json does not go with --parallel"),
        ],
    )
    def test_what_cannot_be(self, line: str, said: str) -> None:
        told = meaning(line.split())
        assert isinstance(told, Wrong)
        assert said in told.message

    def test_behind_two_dashes_it_is_no_option(self) -> None:
        assert isinstance(meaning(["run", "loop", "--", "--parallel"]), Ours)
