"""What the link survives: connections that break at every word, silence, nonsense, and troubles of the shim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.runs.shim import LinkClosed, ShimLink, ShimMistake, Silence, Trouble, conversation
from cueloop_daemon.runs.types import Exited, Grown, LockHeld, LockMade, ShimGone, Started
from cueloop_daemon.shim.wire import Hello, Lock, Start, encode
from cueloop_daemon.store.not_writable import NotWritable
from runs.fake_shim import FakeShim
from runs.shim_world import PATIENCE, ShimWorld, read_all, see_through, shim_world

AT = "2026-11-30T12:00:00.000000000Z"
RUNS = "trap 'exit 3' INT; echo x >> count; echo on; while :; do sleep 0.01; done"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ShimWorld]:
    with shim_world(tmp_path, "fake") as made:
        yield made


def fake(world: ShimWorld) -> FakeShim:
    assert world.fake is not None
    return world.fake


async def story(world: ShimWorld, link: ShimLink) -> Exited:
    """Every kind of wish once."""
    assert isinstance(await link.lock(1, "run one", "c", AT), LockMade)
    assert isinstance(await link.start(world.order(2, RUNS)), Started)
    with anyio.fail_after(PATIENCE):
        while not world.folder.sizes(2)[0]:
            await anyio.sleep(0.01)
    await link.limits(2, leave_within=30.0)
    await link.signal(2, 5.0)
    _, ended = await see_through(link, 2)
    await link.acknowledge(2)
    await link.unlock(3)
    assert (await link.status()).child is None
    return ended


@pytest.mark.parametrize("answers", range(9))
async def test_a_connection_that_breaks_at_any_answer_changes_nothing(world: ShimWorld, answers: int) -> None:
    async with world.link() as link:
        fake(world).cut_after = answers
        ended = await story(world, link)
    assert (ended.code, ended.cause, ended.out) == (3, "signal", 3)
    assert (world.home / "count").read_text() == "x\n", "started once"
    assert not world.lock.exists()
    assert fake(world).cut_after is None, "the connection was cut"
    assert fake(world).count(Hello) == 2


async def test_an_end_that_came_while_nobody_was_connected_is_heard(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, "while [ ! -e go ]; do sleep 0.01; done; echo done; exit 4"))
        news = link.follow(1)
        assert await anext(news) == Grown(0, 0)
        place = Path(world.folder.path, "shim.json")
        place.rename(place.with_suffix(".away"))  # nobody finds the shim until the child is gone
        fake(world).break_connection()
        (world.home / "go").touch()
        with anyio.fail_after(PATIENCE):
            while fake(world).child is not None:
                await anyio.sleep(0.01)
        place.with_suffix(".away").rename(place)
        *_, last = [one async for one in news]
    assert isinstance(last, Exited)
    assert (last.code, read_all(world.folder, 1)) == (4, b"done\n")
    assert fake(world).count(Start) == 2, "asked again on the new connection, and not started again"


@pytest.mark.parametrize(
    "line",
    [b"\n", b"[]\n", b"{}\n", b'{"exited": {"n": 1}}\n', b'{"grown": []}\n', b'{"state": 1}\n', b"\xff\n", b"x" * 70_000],
)
async def test_nonsense_ends_the_connection_and_not_the_link(world: ShimWorld, line: bytes) -> None:
    async with world.link() as link:
        await link.status()
        fake(world).push(line)
        with anyio.fail_after(PATIENCE):
            while fake(world).count(Hello) < 2:
                await anyio.sleep(0.01)
        assert (await link.status()).child is None


async def test_words_of_a_later_version_are_passed_over(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.status()
        fake(world).push(encode("weather", n=1, sun=True))
        fake(world).push(encode("grown", n=77, out=5, err=0, colour="blue"))
        assert (await link.status()).child is None
    assert fake(world).count(Hello) == 1


async def test_troubles_of_the_shim_are_handed_on(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.status()
        fake(world).push(encode("trouble", what="output", errno=28))
        await link.status()
    assert world.heard == [Trouble("output", 28)]


async def test_a_lock_that_cannot_be_made_for_lack_of_room_is_told_with_its_reason(world: ShimWorld) -> None:
    async with world.link() as link:
        fake(world).full = True
        with pytest.raises(NotWritable, match="the disk is full"):
            await link.lock(1, "run one", "c", AT)


async def test_a_shim_that_says_nothing_is_told_of_and_heard_again(world: ShimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "QUIET", 0.1)
    async with world.link() as link:
        await link.status()
        fake(world).mute = True
        with anyio.fail_after(PATIENCE):
            while not link.is_silent:
                await anyio.sleep(0.01)
        fake(world).mute = False
        fake(world).push(encode("grown", n=1, out=0, err=0))
        with anyio.fail_after(PATIENCE):
            while link.is_silent:
                await anyio.sleep(0.01)
    assert world.heard[:2] == [Silence(begins=True), Silence(begins=False)]


async def test_an_idle_shim_that_answers_is_not_silent(world: ShimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "QUIET", 0.1)
    async with world.link() as link:
        with anyio.fail_after(PATIENCE):
            while len(fake(world).wishes) < 7:
                await anyio.sleep(0.01)
        assert not link.is_silent
    assert world.heard == []


async def test_a_shim_that_lives_and_lets_nobody_in_is_told_of(world: ShimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "PATIENCE", 0.1)
    async with world.link() as link:
        place = Path(world.folder.path, "shim.json")
        place.rename(place.with_suffix(".away"))
        fake(world).break_connection()
        with anyio.fail_after(PATIENCE):
            while not link.is_silent:
                await anyio.sleep(0.01)
        assert not link.lost.is_set()
        place.with_suffix(".away").rename(place)
        assert (await link.status()).child is None, "asked while it was away, answered when it was back"
        fake(world).die()
        await link.lost.wait()
        with pytest.raises(ShimGone):
            await link.status()


@pytest.mark.parametrize("word", ["Status", "Lock", "Unlock", "Start", "Signal"])
async def test_an_answer_that_is_none_is_a_mistake(world: ShimWorld, word: str) -> None:
    to = word.lower()
    async with world.link() as link:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "Status": link.status,
            "Lock": lambda: link.lock(1, "run one", "c", AT),
            "Unlock": lambda: link.unlock(1),
            "Start": lambda: link.start(world.order(1, "true")),
            "Signal": lambda: link.signal(1, 1.0),
        }
        answered = {} if word == "Status" else {"n": 1}
        fake(world).odd[word] = encode("weather", to=to, **answered)
        with pytest.raises(ShimMistake, match=f"{to}: the shim answered weather"):
            await calls[word]()
        if word == "Start":
            with pytest.raises(ShimMistake):
                await see_through(link, 1)


async def test_an_owner_file_that_no_bytes_give_is_a_mistake(world: ShimWorld) -> None:
    async with world.link() as link:
        fake(world).odd["Lock"] = encode("made", to="lock", n=1, dev=1, ino=2, owner="\ud800")
        with pytest.raises(ShimMistake, match="owner"):
            await link.lock(1, "run one", "c", AT)


async def test_a_lock_that_cannot_be_removed_is_told(world: ShimWorld) -> None:
    async with world.link() as link:
        fake(world).odd["Unlock"] = encode("error", to="unlock", n=1, errno=30)
        with pytest.raises(NotWritable, match=r"Cannot remove \.cueloop/lock: the file system is read-only"):
            await link.unlock(1)


async def test_whoever_is_quicker_has_the_lock(world: ShimWorld) -> None:
    """Each time a dead holder's lock is cleared, another takes it and dies."""
    async with world.link() as link:
        owners = iter(range(2_147_483_000, 2_147_483_600))

        class Quick(dict[str, bytes]):
            def __getitem__(self, word: str) -> bytes:
                return encode("held", to="lock", n=1, dev=1, ino=2, owner=f"pid: {next(owners)}\n", names=[])

        fake(world).odd = Quick(Lock=b"")
        assert await link.lock(1, "run one", "c", AT) == LockHeld(2_147_483_002, None, None, False)
        assert fake(world).count(Lock) == 3


async def test_a_folder_that_is_closed_ends_the_link(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.status()
        world.folder.close()
        fake(world).break_connection()
        with pytest.raises(LinkClosed):
            await link.limits(1, leave_within=1.0)
        assert not link.lost.is_set()
    fake(world).die()
    world.folder = world.folders.make(world.run_id)
