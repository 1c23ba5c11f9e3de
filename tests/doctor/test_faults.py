"""Each fault, really made, is found by its own code and no other, with cause and fix; and what the fix says makes it go."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cueloop_daemon.doctor.kinds import KINDS
from cueloop_protocol.documents.doctor import DoctorDocument
from doctor import (
    faults_agents,
    faults_config,
    faults_daemon,
    faults_machine,
    faults_place,
    faults_queue,
    faults_runs,
    faults_session,
)
from doctor.fault import Fault
from doctor.lab import Lab, codes, laboratory
from support.world import without_privileges

TABLES = (
    faults_place,
    faults_daemon,
    faults_config,
    faults_queue,
    faults_session,
    faults_runs,
    faults_agents,
    faults_machine,
)
FAULTS = tuple(fault for table in TABLES for fault in table.FAULTS)
ELSEWHERE = {"no-compiled-files"}
"""Found by tests of their own."""


def _found(lab: Lab, fault: Fault) -> DoctorDocument:
    if not fault.is_command:
        return lab.visit(seconds=fault.seconds, is_settled=fault.is_settled)
    done: subprocess.CompletedProcess[bytes] = lab.world.run("doctor", "--json", "--no-versions", before=without_privileges)
    document = DoctorDocument.model_validate(json.loads(done.stdout))
    assert (done.returncode, done.stderr) == (0 if document.healthy else 1, b"")
    return document


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.code}: {fault.id}")
def test_a_fault_is_found_by_its_code_alone_and_its_fix_mends_it(fault: Fault) -> None:
    with laboratory() as lab:
        fault.make(lab)
        document = _found(lab, fault)
        found = [finding for finding in document.findings if finding.code == fault.code]
        assert found, [finding.code for finding in document.findings]
        assert {*codes(document, "error", "warning")} <= {fault.code, *fault.also}, document.findings
        told = " ".join(f"{finding.message} {finding.cause} {finding.fix}" for finding in found)
        assert all(finding.message and finding.cause and finding.fix for finding in found)
        assert [name for name in fault.names if name not in told] == [], told
        assert document.healthy == (KINDS[fault.code].severity != "error")
        if fault.mend is not None:
            fault.mend(lab)
            after = lab.visit()
            assert fault.code not in codes(after), after.findings
            assert codes(after, "error") == []


def test_every_kind_has_a_fault() -> None:
    assert {fault.code for fault in FAULTS} | ELSEWHERE == KINDS.keys()
    assert len(FAULTS) >= 40


def test_missing_compiled_files_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with laboratory() as lab:
        lab.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        monkeypatch.setattr(sys, "pycache_prefix", str(lab.world.folder / "nothing"))
        assert codes(lab.visit()) == ["no-compiled-files"]
        monkeypatch.setattr(sys, "pycache_prefix", None)
        del lab.environ["PYTHONDONTWRITEBYTECODE"]
        assert codes(lab.visit()) == []
