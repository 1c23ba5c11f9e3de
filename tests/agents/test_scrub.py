"""What is taken out of a recording."""

from __future__ import annotations

import json
from pathlib import Path

from agents.cli import MODULES, Place
from agents.scrub import replacements, scrubbed

PLACE = Place(Path("/tmp/agents-x_1/home"), Path("/tmp/agents-x_1/project"), 45678)
PAIRS = replacements(PLACE, "buildbox")


def test_paths_ports_and_names_become_neutral_ones() -> None:
    text = f"{PLACE.project}/a {PLACE.home}/.pi {MODULES}/pi http://127.0.0.1:45678/v1 buildbox /tmp/agents-x_1/tmp/b"
    assert scrubbed(text, PAIRS) == (
        "/home/person/project/a /home/person/.pi /opt/agents/node_modules/pi http://127.0.0.1:8080/v1 machine /home/person/tmp/b"
    )


def test_paths_that_a_cli_made_a_name_of() -> None:
    assert scrubbed("/sessions/--tmp-agents-x-1-project--/a", PAIRS) == "/sessions/--home-person-project--/a"
    assert scrubbed("/sessions/--tmp-agents-x_1-project--/a", PAIRS) == "/sessions/--home-person-project--/a"


def test_a_systems_prompt_is_left_out_and_the_rest_of_the_line_kept() -> None:
    prompt = "You are a program. " * 5
    line = json.dumps(
        {"message": {"role": "system", "parts": [{"text": prompt}], "id": "1"}, "usage": prompt}, separators=(",", ":")
    )
    out = json.loads(scrubbed(line + "\n", PAIRS))
    assert out == {"message": {"role": "system", "parts": [{"text": "(the program's own prompt)"}], "id": "1"}, "usage": prompt}


def test_a_line_that_is_no_json_is_kept() -> None:
    line = 'half a "role":"system" line\n'
    assert scrubbed(line, PAIRS) == line


def test_without_a_machines_name_nothing_is_replaced_by_it() -> None:
    assert scrubbed("abc", replacements(PLACE, "")) == "abc"
