"""What a person is asked about an interrupted session before a run begins (design section 8). Standard library only."""

from __future__ import annotations

from cueloop_client.session_text import headline, particulars
from cueloop_client.shapes import text
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cueloop_client.context import Context
    from cueloop_protocol.codes import RpcError


class Prompt(Frozen):
    """A question of one line: how it is put, and what each answer means (None: leave everything as it is)."""

    line: str
    answers: Mapping[str, str | None]


LEAVE: Mapping[str, str | None] = {"q": None, "quit": None, "leave": None}
RESUME: Mapping[str, str | None] = {"r": "resume", "resume": "resume"}
FRESH: Mapping[str, str | None] = {"f": "fresh", "fresh": "fresh"}
PROMPTS: Mapping[str, Prompt] = {
    "resume_confirmation_required": Prompt(
        "Resume it? (y: resume, n: start fresh, q: leave) [Y/n/q] ",
        {"": "resume", "y": "resume", "yes": "resume", **RESUME, "n": "fresh", "no": "fresh", **FRESH, **LEAVE},
    ),
    "session_timed_out_requires_confirmation": Prompt(
        "Resume it, start fresh, or leave? [r/f/Q] ", {"": None, **RESUME, **FRESH, **LEAVE}
    ),
    "session_cache_corrupt": Prompt(
        "Start fresh (the damaged file is kept aside), or leave? [f/Q] ", {"": None, **FRESH, **LEAVE}
    ),
}


def ask_about_session(context: Context, error: RpcError) -> str | None:
    """Show the session and ask until an answer is one; None for leaving, at the end of input, too.

    Where the daemon offers no choice there is nothing to ask: its words are shown, and the error is raised as it came.
    """
    prompt = prompt_for(error)
    if prompt is None:
        raise error
    context.say("\n".join(part for part in _shown(error) if part))
    while True:
        context.world.write(2, prompt.line.encode())
        line = context.world.read_line()
        if not line:
            context.world.write(2, b"\n")
            return None
        given = line.strip().lower()
        if given in prompt.answers:
            return prompt.answers[given]
        context.say(f"{line.strip()!r} is no answer here.")


def prompt_for(error: RpcError) -> Prompt | None:
    """The question for this error: by its decision's reason, with no answer that the daemon does not offer."""
    decision, offered = error.data.get("decision"), error.data.get("choices")
    if not isinstance(offered, list) or not offered:
        return None
    prompt = PROMPTS.get(text(decision.get("reason")) if isinstance(decision, dict) else "")
    if prompt is not None and {choice for choice in prompt.answers.values() if choice} <= set(offered):
        return prompt
    answers = {"": None, **(RESUME if "resume" in offered else {}), **(FRESH if "fresh" in offered else {}), **LEAVE}
    letters = "/".join([*("r" for _ in ["resume"] if "resume" in offered), *("f" for _ in ["fresh"] if "fresh" in offered), "Q"])
    return Prompt(f"Resume (r), start fresh (f), or leave (q)? [{letters}] ", answers)


def _shown(error: RpcError) -> list[str]:
    """What stands above the question. A current session needs no reasons: those are for whom nobody asks."""
    decision, session = error.data.get("decision"), error.data.get("session")
    found = _found(session) if isinstance(session, dict) else None
    reason, told = (text(decision.get(name)) for name in ("reason", "message")) if isinstance(decision, dict) else ("", "")
    if found is not None and reason == "resume_confirmation_required":
        return [headline(found), particulars(found)]
    words = [text(error.document["message"]), text(error.document.get("detail"))]
    return [*([told] if told != words[0] else []), *words, particulars(found) if found is not None else ""]


def _found(session: Mapping[str, object]) -> dict[str, object]:
    """The session as `session_text` wants it: task, age, phase, iterations and runner."""
    shown = (
        session if isinstance(session.get("session"), dict) else {"session": session, "age_seconds": session.get("age_seconds")}
    )
    return {**shown, "state": "", "decision": None}
