"""The commands of runs. Standard library only."""

from __future__ import annotations

from cueloop_client import run_flags
from cueloop_client.command import Command
from cueloop_client.flags import Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ATTACHED = (
    "Ctrl-C stops after the current task, a second one cancels, a third leaves the run cancelling.\n"
    "A terminal that goes away leaves the run: `cueloop run attach` shows it again."
)
PARALLEL = "--parallel [N] is passed on to the Rust tool, and so is a loop where parallel.workers is configured."
ENDS = "Exit code: 0 done or nothing to do, 1 failed or refused, 130 cancelled or left before it began."
MACHINE = (
    "Standard output is one JSON object a line: run_started first, the summary last. INT or TERM cancels the run; a hang-up, a closed\n"
    "pipe or KILL leaves it. The exit code is the summary's. What fails before that is one error document on standard error."
)

RUNS: Mapping[tuple[str, ...], Command] = {
    ("run", "one"): Command(
        module="run_one",
        summary="Run one task: the interrupted one, the one that is named, or the next",
        usage="cueloop run one [--id TASK] [--resume | --fresh] [--detach | --dry-run] [options]",
        example="cueloop run one --id RQ-0001",
        flags=(*run_flags.ONE, *run_flags.PEOPLE),
        notes=f"{ATTACHED}\n{ENDS}",
    ),
    ("run", "loop"): Command(
        module="run_loop",
        summary="Run task after task",
        usage="cueloop run loop [--max-tasks N] [--resume | --fresh] [--detach | --dry-run] [options]",
        example="cueloop run loop --max-tasks 3",
        flags=(*run_flags.LOOP, *run_flags.PEOPLE),
        notes=f"{ATTACHED}\n{PARALLEL}\n{ENDS}",
    ),
    ("run", "resume"): Command(
        module="run_resume",
        summary="Go on with an interrupted session, then run task after task: the same as `run loop --resume`",
        usage="cueloop run resume [--max-tasks N] [--detach | --dry-run] [options]",
        example="cueloop run resume",
        flags=(*run_flags.RESUMED, *run_flags.PEOPLE),
        notes=f"{ATTACHED}\n{ENDS}",
    ),
    ("run", "stop"): Command(
        module="run_stop",
        summary="Have the active run end after its current task",
        usage="cueloop run stop [--run-id RUN] [--json]",
        example="cueloop run stop",
        flags=(run_flags.RUN_ID,),
    ),
    ("run", "cancel"): Command(
        module="run_cancel",
        summary="End the active run now, and wait until no process of it is left",
        usage="cueloop run cancel [--run-id RUN] [--json]",
        example="cueloop run cancel",
        flags=(run_flags.RUN_ID,),
        notes="The session and its task stay as they are, and nothing is taken back.",
    ),
    ("run", "status"): Command(
        module="run_status",
        summary="Show the active run, or the last one",
        usage="cueloop run status [--run-id RUN] [--json]",
        example="cueloop run status --json | jq .run.state",
        flags=(run_flags.RUN_ID,),
    ),
    ("run", "attach"): Command(
        module="run_attach",
        summary="Show the active run as it goes on, and answer what it asks",
        usage="cueloop run attach [--run-id RUN] [--json]",
        example="cueloop run attach",
        flags=(run_flags.RUN_ID,),
        notes=f"{ATTACHED}\nExit code: as of the command that started it.",
    ),
    ("run", "output"): Command(
        module="run_output",
        summary="Print what the agents of a run wrote",
        usage="cueloop run output [--run-id RUN] [--offset BYTES] [--follow] [--json]",
        example="cueloop run output --follow",
        flags=(
            run_flags.RUN_ID,
            Flag("offset", "BYTES", "begin there"),
            Flag("follow", None, "go on until the run is over, or Ctrl-C", short="f"),
        ),
        notes="Without --run-id it is the active run, else the last one.",
    ),
    ("machine", "run", "one"): Command(
        module="machine_run_one",
        summary="Run one task and print its events",
        usage="cueloop machine run one [--id TASK] [--resume | --fresh] [options]",
        example="cueloop machine run one --resume",
        flags=run_flags.ONE,
        machine=True,
        notes=MACHINE,
    ),
    ("machine", "run", "loop"): Command(
        module="machine_run_loop",
        summary="Run task after task and print the events",
        usage="cueloop machine run loop [--max-tasks N] [--resume | --fresh] [options]",
        example="cueloop machine run loop --max-tasks 3",
        flags=run_flags.LOOP,
        machine=True,
        notes=f"{MACHINE}\n{PARALLEL}",
    ),
}
