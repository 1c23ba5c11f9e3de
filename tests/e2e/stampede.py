"""Many callers at once in one repository: `PYTHONPATH=tests python -P tests/e2e/stampede.py [N]`."""

from __future__ import annotations

import sys

from support.repository import session
from support.stampede import stampede
from support.world import World


def main() -> int:
    """Cold, for people: print what came of it."""
    world = World.make()
    try:
        world.repository.put(world.repository.session, session())
        found = stampede(world, int(sys.argv[1]) if len(sys.argv) > 1 else 100)
        print(f"{found.right} right, {found.wrong.total()} wrong, {len(found.daemons)} daemon(s)")
        print("\n".join(f"  {count} x {problem}" for problem, count in found.wrong.most_common()))
        return 0 if not found.wrong and len(found.daemons) == 1 else 1
    finally:
        world.close()


if __name__ == "__main__":
    sys.exit(main())
