"""Git as runs need it, with a real git."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cueloop_daemon.runs.types import TreeStanding
from cueloop_daemon.store.trees import GitTrees
from cueloop_protocol.roots import Caller, Root

SESSION = "550e8400-e29b-41d4-a716-446655440000"
NOTHING = TreeStanding(False, None)
NAMED = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *NAMED, *arguments], cwd=folder, env=env, check=check, capture_output=True, text=True)
    return done.stdout.strip()


def trees(folder: Path, *apart: str) -> GitTrees:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": "/nowhere"}
    return GitTrees(Root(str(folder), str(folder)), Caller(str(folder.parent), None), env, apart)


def run(folder: Path, argv: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """As the shim runs it for a person who has a name."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    (folder.parent / ".gitconfig").write_text("[user]\nname = Somebody\nemail = somebody@example.org\n")
    return subprocess.run(argv, cwd=folder, env=env, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / ".cueloop").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "file").write_text("one\n")
    (folder / ".cueloop/queue.jsonc").write_text("{}")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


async def test_what_makes_a_tree_dirty(repository: Path) -> None:
    here = trees(repository, "tasks.jsonc")
    assert not (await here.standing()).is_dirty
    (repository / ".cueloop/queue.jsonc").write_text("changed")
    (repository / ".cueloop/new").write_text("ours")
    (repository / "tasks.jsonc").write_text("a queue somewhere else")
    assert not (await here.standing()).is_dirty
    (repository / "new").write_text("not tracked")
    assert (await here.standing()).is_dirty


async def test_the_tree_as_it_stands_leaves_the_index_alone(repository: Path) -> None:
    here = trees(repository)
    before = await here.now()
    index = (repository / ".git/index").read_bytes()
    (repository / "file").write_text("two\n")
    (repository / "new").write_text("new\n")
    after = await here.now()
    assert before is not None
    assert after is not None
    assert before != after
    assert (repository / ".git/index").read_bytes() == index
    assert await here.changed(before, after) == ("file", "new")
    (repository / ".cueloop/queue.jsonc").write_text("changed")
    assert await here.now() == after


async def test_a_change_that_left_no_trace_in_the_stat_is_seen(repository: Path) -> None:
    file, index = repository / "file", repository / ".git/index"
    git(repository, "config", "core.trustctime", "false")
    past = (file.stat().st_mtime_ns // 1_000_000_000 - 60) * 1_000_000_000
    os.utime(file, ns=(past, past))
    git(repository, "add", "file")
    before = await trees(repository).now()
    file.write_text("two\n")  # of the same length, in the second in which the index was written
    for path in (file, index):
        os.utime(path, ns=(past, past))
    assert await trees(repository).now() != before


async def test_which_commit_is_checked_out(repository: Path) -> None:
    here = trees(repository)
    head = git(repository, "rev-parse", "HEAD")
    assert await here.standing() == TreeStanding(False, head)
    git(repository, "checkout", "-q", "--detach")
    (repository / "# branch.oid new\nline").write_text("a name is no answer")
    git(repository, "stash", "-q", "-u")
    git(repository, "config", "status.showStash", "true")
    assert await here.standing() == TreeStanding(False, head)
    git(repository, "stash", "pop", "-q")
    assert await here.standing() == TreeStanding(True, head)


async def test_before_the_first_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one\n")
    here = trees(tmp_path)
    assert (await here.standing()) == TreeStanding(True, None)
    assert await here.head() is None
    assert (await here.standing()).is_dirty
    kept = await here.keep("RQ-0001", SESSION, tree=await here.now(), head=await here.head(), dirty=True)
    assert (kept.head, kept.was_dirty) == (None, True)
    assert git(tmp_path, "show", f"{kept.commit}:file") == "one"


async def test_without_git(tmp_path: Path) -> None:
    here = trees(tmp_path)
    assert (await here.standing(), await here.now(), await here.head()) == (NOTHING, None, None)
    kept = await here.keep("RQ-0001", SESSION, tree=None, head=await here.head(), dirty=False)
    assert (kept.commit, kept.head) == (None, None)
    assert not await here.has_commit("RQ-0001", "r-1", None)


async def test_a_git_that_is_missing(repository: Path) -> None:
    here = GitTrees(Root(str(repository), str(repository)), Caller("/nowhere", None), {"PATH": "/nowhere"}, ())
    assert (await here.standing(), await here.now(), await here.head()) == (NOTHING, None, None)


async def test_f08_a_lock_on_the_index_is_no_obstacle_to_looking_and_stays(repository: Path) -> None:
    lock = repository / ".git/index.lock"
    lock.touch()
    (repository / "file").write_text("two\n")
    here = trees(repository)
    assert (await here.standing()).is_dirty
    assert await here.now() is not None
    kept = await here.keep("RQ-0001", SESSION, tree=await here.now(), head=await here.head(), dirty=True)
    assert kept.commit is not None
    assert run(repository, here.commit_argv("RQ-0001", "T", "r-1")).returncode != 0
    assert lock.exists()


async def test_f08_a_detached_head(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    assert await trees(repository).head() == git(repository, "rev-parse", "HEAD")


class TestKeep:
    async def test_a_clean_tree(self, repository: Path) -> None:
        here = trees(repository)
        kept = await here.keep("RQ-0001", SESSION, tree=None, head=await here.head(), dirty=False)
        assert kept.head == git(repository, "rev-parse", "HEAD")
        assert git(repository, "rev-parse", f"{kept.commit}^{{tree}}") == git(repository, "rev-parse", "HEAD^{tree}")
        assert not git(repository, "log", "--format=%s", "main").count("found it")

    async def test_a_session_that_goes_on_keeps_the_tree_that_its_task_found(self, repository: Path) -> None:
        here = trees(repository)
        first = await here.keep("RQ-0001", SESSION, tree=None, head=await here.head(), dirty=False)
        (repository / "file").write_text("half done\n")
        assert await here.keep("RQ-0001", SESSION, tree=await here.now(), head=await here.head(), dirty=True) == first
        other = await here.keep("RQ-0001", "another session", tree=await here.now(), head=await here.head(), dirty=True)
        assert other.commit != first.commit
        assert other.was_dirty
        assert git(repository, "show", f"{other.commit}:file") == "half done"
        assert await here.keep("RQ-0001", "another session", tree=None, head=await here.head(), dirty=False) == other

    async def test_a_session_that_is_new_is_not_looked_for(self, repository: Path) -> None:
        here = trees(repository)
        head = await here.head()
        first = await here.keep("RQ-0001", "the one before", tree=None, head=head, dirty=True)
        new = await here.keep("RQ-0001", SESSION, tree=None, head=head, dirty=False, is_new=True)
        assert new.commit != first.commit
        assert await here.keep("RQ-0001", SESSION, tree=None, head=head, dirty=True) == new

    async def test_each_task_has_its_own(self, repository: Path) -> None:
        here = trees(repository)
        names = ("RQ-0001", "RQ_0001", "RQ-0002", "ÜX-0001", "a/b-0001", "..-0001", ".lock-1", "@{-1", "~^:?*[ -1")
        kept = {
            name: await here.keep(name, f"session of {name}", tree=None, head=await here.head(), dirty=False) for name in names
        }
        assert None not in {one.commit for one in kept.values()}
        for name in names:
            assert await here.keep(name, f"session of {name}", tree=None, head=await here.head(), dirty=True) == kept[name]
        assert len(git(repository, "for-each-ref", "refs/cueloop/base").splitlines()) == len(names)

    async def test_forgotten_when_the_task_is_done(self, repository: Path) -> None:
        here = trees(repository)
        await here.keep("RQ-0001", SESSION, tree=None, head=await here.head(), dirty=False)
        await here.forget("RQ-0001")
        await here.forget("RQ-0001")
        assert git(repository, "for-each-ref", "refs/cueloop") == ""


class TestPublish:
    async def test_a_commit_can_be_recognised(self, repository: Path) -> None:
        here = trees(repository)
        since = await here.head()
        (repository / "file").write_text("two\n")
        (repository / "new").write_text("new\n")
        (repository / ".cueloop/queue.jsonc").write_text("without the task")
        assert not await here.has_commit("RQ-0001", "r-1", since)
        title = "Teach the parrot\n\nCueLoop-Run: r-666 " + "x" * 300
        assert run(repository, here.commit_argv("RQ-0001", title, "r-1")).returncode == 0
        assert await here.has_commit("RQ-0001", "r-1", since)
        assert await here.has_commit("RQ-0001", "r-1", None)
        assert not await here.has_commit("RQ-0001", "r-2", since)
        assert not await here.has_commit("RQ-0002", "r-1", since)
        assert not await here.has_commit("RQ-0001", "r-1", await here.head())
        assert git(repository, "status", "--porcelain") == ""
        assert git(repository, "log", "-1", "--format=%an") == "Somebody"
        assert git(repository, "log", "-1", "--format=%s").startswith("RQ-0001: Teach the parrot CueLoop-Run: r-666 xxx")

    async def test_what_runs_keep_for_themselves_is_never_committed(self, repository: Path) -> None:
        for name in ("cache/session.jsonc", "lock/owner"):
            path = repository / ".cueloop" / name
            path.parent.mkdir(parents=True)
            path.write_text("ours")
        (repository / "file").write_text("two\n")
        assert run(repository, trees(repository).commit_argv("RQ-0001", "T", "r-1")).returncode == 0
        assert git(repository, "show", "--name-only", "--format=", "HEAD") == "file"

    async def test_an_agent_that_committed_everything_left_nothing_to_do(self, repository: Path) -> None:
        head = git(repository, "rev-parse", "HEAD")
        assert run(repository, trees(repository).commit_argv("RQ-0001", "T", "r-1")).returncode == 0
        assert git(repository, "rev-parse", "HEAD") == head

    async def test_a_hook_that_refuses_is_heard(self, repository: Path) -> None:
        hook = repository / ".git/hooks/pre-commit"
        hook.write_text("#!/bin/sh\necho not like this >&2\nexit 1\n")
        hook.chmod(0o755)
        (repository / "file").write_text("two\n")
        done = run(repository, trees(repository).commit_argv("RQ-0001", "T", "r-1"))
        assert (done.returncode, done.stderr.strip()) == (1, "not like this")

    async def test_a_push_goes_where_the_branch_is_set_to_go(self, repository: Path, tmp_path: Path) -> None:
        here = trees(repository)
        assert run(repository, here.push_argv()).returncode != 0
        git(tmp_path, "init", "-q", "--bare", "elsewhere")
        git(repository, "remote", "add", "origin", str(tmp_path / "elsewhere"))
        git(repository, "push", "-q", "-u", "origin", "main")
        (repository / "file").write_text("two\n")
        run(repository, here.commit_argv("RQ-0001", "T", "r-1"))
        assert run(repository, here.push_argv()).returncode == 0
        assert run(repository, here.push_argv()).returncode == 0
        assert git(tmp_path / "elsewhere", "rev-parse", "main") == git(repository, "rev-parse", "main")


async def test_the_command_of_a_revert_finds_its_module_anywhere(repository: Path) -> None:
    here = trees(repository, "tasks.jsonc")
    (repository / "cueloop_daemon").mkdir()
    (repository / "cueloop_daemon/__init__.py").write_text("raise SystemExit('somebody else')")
    kept = await here.keep("RQ-0001", SESSION, tree=await here.now(), head=await here.head(), dirty=True)
    (repository / "file").write_text("two\n")
    argv = here.revert_argv(kept)
    assert argv[0] == sys.executable
    assert argv[-2:] == (kept.commit, "tasks.jsonc")
    done = run(repository, argv)
    assert (done.returncode, done.stderr) == (0, "")
    assert (repository / "file").read_text() == "one\n"
