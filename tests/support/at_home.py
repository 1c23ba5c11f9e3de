"""The daemon as it runs for a user whose home is the first argument, so that tests do not depend on the home of who runs them."""

from __future__ import annotations

import pwd
import sys


def as_if_at(home: str) -> None:
    """The passwd entries of this process have this home."""
    known = pwd.getpwuid

    def getpwuid(uid: int) -> pwd.struct_passwd:
        fields = list(known(uid))
        fields[5] = home
        return pwd.struct_passwd(fields)

    pwd.getpwuid = getpwuid


if __name__ == "__main__":
    as_if_at(sys.argv[1])
    from cueloop_daemon.__main__ import main

    sys.exit(main(sys.argv[2:]))
