"""`cueloop doctor`: everything that can keep CueLoop from working here, looked at and never touched.

It writes nothing into the repository, starts no daemon and takes no lock; whatever it meets is a finding.
"""

from __future__ import annotations

from cueloop_daemon.doctor.examine import doctor as doctor

__all__ = ["doctor"]
