"""Another secret signs impression ids: those in flight are answered, those that the old one signs later are not."""

import asyncio
import contextlib

import pytest

from service_tools import Clocks, logged_events, replayed, serving, until
from steadyrank.cli import main
from steadyrank.service.board import events
from steadyrank.service.storage import open_store
from steadyrank.service.worker.impression_ids import Signer, open_sealed, seal

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def test_ids_in_flight_stay_good_and_others_of_the_old_secret_do_not(url):
    async with serving(url) as local:
        await local.board(settle=0, lifetime=100.0)
        old = local.worker.boards["b"].signer
        first, late, never = [await local.rank() for _ in range(3)]
        good = (await local.ask("POST", "boards/b/secret"))["until"]
        assert good == local.clocks.wall + 160.0
        shown = await local.rank()
        with pytest.raises(Exception, match="not one of this board"):
            open_sealed(shown["impression"], old)
        assert (await local.answer(shown, clicked=None))["outcome"] == "learnt"
        assert (await local.answer(first, clicked=None))["outcome"] == "learnt"
        assert (await local.answer(first, clicked=None))["outcome"] == "duplicate"
        said = open_sealed(late["impression"], old)
        forged = {"impression": seal(said._replace(key=7, expires=good + 1.0), old)}
        await local.answer(forged, code=403, clicked=None)  # whoever has the old secret cannot sign for later
        local.clocks.pass_time(99.0)
        assert (await local.answer(late, clicked=None))["outcome"] == "learnt"
        local.clocks.pass_time(2.0)
        await local.answer(never, code=410, clicked=None)
        local.clocks.pass_time(60.0)
        await local.answer(never, code=403, clicked=None)  # the old secret is good for nothing any more
        await local.quiet()
        assert local.digest() == replayed(url)


async def test_it_can_be_rotated_again_at_once_and_is_in_the_record(url):
    async with serving(url) as local:
        await local.board(settle=0, client_minute=100)
        lists = []
        for _ in range(4):
            lists.append(await local.rank(client="ann"))
            await local.ask("POST", "boards/b/secret")
        for shown in lists:
            assert (await local.answer(shown, clicked=None))["outcome"] == "learnt"
        await local.ask("POST", "boards/none/secret", code=404)
    with contextlib.closing(open_store(url)) as store:
        assert [act.what for act in store.acts(0)][1:5] == ["signing secret rotated"] * 4
        log = logged_events(store)
        assert {event.client for event in log if isinstance(event, events.ListShown)} == {0}  # still the same client
        ((number, _),) = store.boards().items()
        assert [seal_.until is None for seal_ in store.seals(number)] == [True] + [False] * 4
        assert store.rotate_seal(number, events.encode(events.Resealed()), 1e12, 1e12 + 1.0)
        assert len(store.seals(number)) == 2  # the others have ended
        assert not store.rotate_seal(number + 99, b"", 1.0, 2.0)


async def test_other_workers_and_the_next_start_know_the_secret(url):
    clocks = Clocks()
    async with serving(url, clocks, 1) as here, serving(url, clocks, 2, most_awake=1) as there:
        await here.board(settle=0)
        await there.worker.catch_up()
        before = await there.rank()
        await here.ask("POST", "boards/b/secret")
        shown = await here.rank()
        assert (await there.answer(shown, clicked=None))["outcome"] == "learnt"
        assert (await here.answer(before, clicked=None))["outcome"] == "learnt"
        await there.board("other")
        await until(lambda: "b" in there.worker.cache.evicted)
        await here.ask("POST", "boards/b/secret")  # while it sleeps there
        latest = await here.rank()
        assert (await there.answer(latest, clicked=None))["outcome"] == "learnt"
        open_ = await there.rank()
        await asyncio.gather(here.quiet(), there.quiet())
    async with serving(url, clocks, 3) as local:
        assert (await local.answer(open_, clicked=None))["outcome"] == "learnt"
        assert (await local.answer(before, clicked=None))["outcome"] == "duplicate"


async def test_ids_stay_good_that_were_given_out_before_the_lifetime_was_lowered(url, tmp_path):
    clocks, path, other = Clocks(), tmp_path / "b.jsonl", f"sqlite:///{tmp_path}/other.db"
    async with serving(url, clocks) as local:
        await local.board(settle=0, lifetime=1_000.0)
        old = local.worker.boards["b"].signer
        first, second, third, last = [await local.rank() for _ in range(4)]
        await local.quiet()
        await local.ask("PUT", "boards/b", {"lifetime": 10.0})
        clocks.pass_time(5.0)
        assert (await local.ask("POST", "boards/b/secret"))["until"] == clocks.wall - 5.0 + 1_060.0
        assert (await local.answer(first, clicked=None))["outcome"] == "learnt"
        said = open_sealed(second["impression"], old)
        forged = {"impression": seal(said._replace(key=7, expires=clocks.wall + 1_056.0), old)}
        await local.answer(forged, code=403, clicked=None)
        clocks.pass_time(500.0)
        await local.quiet()
        short = await local.rank()
        assert (await local.answer(second, clicked=None))["outcome"] == "learnt"  # nor are they over in the log
        assert (await local.ask("POST", "boards/b/secret"))["until"] == clocks.wall - 505.0 + 1_060.0
        await local.quiet()
        clocks.pass_time(11.0)
        await local.answer(short, code=410, clicked=None)
        assert (await local.answer(third, clicked=None))["outcome"] == "learnt"
    assert main(["export", "b", "--out", str(path), "--with-secret", "--store", url]) == 0
    assert main(["import", str(path), "--store", other]) == 0
    async with serving(other, clocks) as local:
        assert (await local.ask("POST", "boards/b/secret"))["until"] == clocks.wall - 516.0 + 1_060.0
        clocks.pass_time(483.0)
        assert (await local.answer(last, clicked=None))["outcome"] == "learnt"
        clocks.pass_time(100.0)
        assert (await local.ask("POST", "boards/b/secret"))["until"] == clocks.wall + 70.0


async def test_lists_are_over_by_the_lifetime_that_they_were_given_out_with(url):
    """Longer, then shorter, also while the board sleeps: in the order in which they were shown."""
    clocks = Clocks()
    async with serving(url, clocks, most_awake=1) as local:
        await local.board(settle=0, lifetime=100.0)
        impressions = local.worker.boards["b"].board.impressions
        await local.rank()
        await local.quiet()
        clocks.pass_time(30.0)
        await local.ask("PUT", "boards/b", {"lifetime": 20.0})
        await local.quiet()
        await local.rank()
        await local.quiet()
        clocks.pass_time(30.0)
        await local.quiet()
        assert impressions.expired == 0
        await local.board("other")
        await until(lambda: "b" in local.worker.cache.evicted)
        clocks.pass_time(39.0)
        await local.quiet()
        assert "b" in local.worker.cache.evicted
        clocks.pass_time(2.0)
        await until(lambda: "b" in local.worker.boards)
        await local.quiet()
        assert local.worker.boards["b"].board.impressions.expired == 2


async def test_a_copy_has_a_secret_of_its_own(url, tmp_path, capsys):
    clocks, path = Clocks(), tmp_path / "b.jsonl"
    async with serving(url, clocks) as local:
        await local.board(settle=0)
        before = await local.rank(client="ann")
        await local.ask("POST", "boards/b/secret")
        after = await local.rank(client="ann")
        await local.quiet()
    assert main(["export", "b", "--out", str(path), "--with-secret", "--store", url]) == 0
    capsys.readouterr()
    for place, words in ((url, "a secret of its own"), (f"sqlite:///{tmp_path}/other.db", "a secret of its own")):
        assert main(["import", str(path), "--as", "copy", "--store", place]) == 0
        assert words in capsys.readouterr().out
    assert main(["import", str(path), "--as", "b", "--store", f"sqlite:///{tmp_path}/other.db"]) == 0
    assert "the secret of the board that was exported" in capsys.readouterr().out
    async with serving(url, clocks) as local:
        for shown in (before, after):
            await local.answer(shown, "copy", code=403, clicked=None)
            assert (await local.answer(shown, clicked=None))["outcome"] == "learnt"
        assert (await local.answer(await local.rank("copy"), "copy", clicked=None))["outcome"] == "learnt"
        assert local.worker.boards["copy"].hash_client("ann") != local.worker.boards["b"].hash_client("ann")
        assert (await local.ask("GET", "boards/copy"))["answers"] == 1


async def test_a_board_that_moves_takes_its_secrets_along(url, tmp_path):
    clocks, path, other = Clocks(), tmp_path / "b.jsonl", f"sqlite:///{tmp_path}/other.db"
    async with serving(url, clocks) as local:
        await local.board(settle=0)
        before = await local.rank()
        await local.ask("POST", "boards/b/secret")
        after = await local.rank()
        await local.quiet()
    assert main(["export", "b", "--out", str(path), "--with-secret", "--store", url]) == 0
    assert main(["import", str(path), "--store", other]) == 0
    async with serving(other, clocks) as local:
        for shown in (before, after):
            assert (await local.answer(shown, clicked=None))["outcome"] == "learnt"
    with contextlib.closing(open_store(other)) as store:
        assert [act.what for act in store.acts(0)] == ["board imported"]
    with contextlib.closing(open_store(url)) as store:
        assert store.acts(-1, 1)[0].what == "board exported with its secret"
        ((number, (_, secret)),) = store.boards().items()
        assert store.seals(number)[1].secret == secret
        assert Signer(secret, "impression").sign(b"") != Signer(store.seals(number)[0].secret, "impression").sign(b"")
