"""Catalogs that are built once: what replicas take, what they refuse, and what they do then."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("cryptography")

from toolroll import PublishedCatalogs, Tool, Toolroll, Unavailable
from toolroll.model.errors import Denied, InvalidInput, NotFound
from toolroll.runtime.locations import Location
from toolroll.snapshots.keys import SigningKey, public_keys
from toolroll.snapshots.manifest import FORMAT, Manifest
from toolroll.snapshots.publisher import prune
from toolroll.snapshots.replica import Requirements
from toolroll.snapshots.shelf import NEWEST, Shelf

MESSAGE = "will it rain tomorrow"


def _folder(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    lines = [{"name": name, "description": f"{name.replace('_', ' ')} for a place"} for name in names]
    (path / "tools.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class World:
    """A folder of tools, a key, and a location."""

    def __init__(self, tmp_path: Path) -> None:
        self.tools = _folder(tmp_path / "tools", "weather_forecast", "send_mail", "rain_alarm")
        self.location = tmp_path / "shared"
        self.key = tmp_path / "key.pem"
        self.public = SigningKey.generate(self.key).public.text
        self.cache = tmp_path / "cache"

    def publish(self, tools: Path | None = None, key: Path | None = None) -> Manifest:
        source = self.tools if tools is None else tools
        with Toolroll.from_folder(source, embedder="none") as roll:
            return roll.publish(self.location, key=key or self.key, source=source)

    def catalogs(self, **changes: object) -> PublishedCatalogs:
        options = {"trust": [self.public], "cache": self.cache, "poll_s": 0.05, **changes}
        return PublishedCatalogs(self.location, **options)  # type: ignore[arg-type]

    def replica(self, otherwise: Path | None = None, **changes: object) -> Toolroll:
        source = self.tools if otherwise is None else otherwise
        return Toolroll.from_published(self.catalogs(**changes), source, embedder="none")

    @property
    def shelf(self) -> Shelf:
        return Shelf(Location(str(self.location)), "main", public_keys([self.public]))

    def blob(self, manifest: Manifest) -> Path:
        return self.location / "main" / "catalogs" / manifest.blob

    def pointer(self) -> Path:
        return self.location / "main" / NEWEST


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _is_mapped(roll: Toolroll) -> bool:
    return roll.health()["published"]["in_use"] is not None


def _until(holds: object, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_replica_maps_what_was_published_and_selects_alike(world: World) -> None:
    made = world.publish()
    with Toolroll.from_folder(world.tools, embedder="none") as own, world.replica() as roll:
        health = roll.health()
        assert health["degraded"] == [] and health["published"]["in_use"] == made.to_dict()
        assert roll.catalog.revision == own.catalog.revision == made.catalog_revision
        assert roll.select(MESSAGE, k=2).names == own.select(MESSAGE, k=2).names


def test_a_replica_that_finds_none_builds_its_own_and_says_so(world: World) -> None:
    with world.replica() as roll:
        assert len(roll) == 3 and roll.ready
        health = roll.health()
        assert health["degraded"] == ["published"]
        assert "nothing is published" in health["published"]["problem"]
        assert "built its own" in health["why"][0]


def test_without_tools_of_its_own_a_replica_does_not_start_on_nothing(world: World) -> None:
    with pytest.raises(Unavailable, match="no folder to build from"):
        Toolroll.from_published(world.catalogs(), embedder="none")


def test_a_location_that_cannot_be_reached_costs_nothing_but_the_build(world: World) -> None:
    gone = PublishedCatalogs(
        "s3://nothing/here",
        trust=[world.public],
        cache=world.cache,
        options={"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"},
        timeout_s=2,
    )
    with Toolroll.from_published(gone, world.tools, embedder="none") as roll:
        assert len(roll) == 3 and roll.health()["degraded"] == ["published"]


@pytest.mark.parametrize("place", ["begin", "middle", "end", "cut", "longer", "empty"])
def test_a_catalog_that_was_changed_after_it_was_signed_is_not_mapped(world: World, place: str) -> None:
    path = world.blob(world.publish())
    content = bytearray(path.read_bytes())
    if place == "cut":
        content = content[:-1]
    elif place == "longer":
        content += b"\0"
    elif place == "empty":
        content = bytearray()
    else:
        content[{"begin": 0, "middle": len(content) // 2, "end": -1}[place]] ^= 1
    path.write_bytes(content)
    with world.replica(poll_s=600) as roll:
        assert not _is_mapped(roll) and "not the catalog that was signed" in roll.health()["why"][0]
        assert not [*world.cache.rglob("*.catalog"), *world.cache.rglob("*.part")]


def test_a_bad_catalog_is_not_fetched_at_every_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.blob(world.publish()).write_bytes(b"bad")
    fetched: list[Path] = []
    real = PublishedCatalogs._download
    monkeypatch.setattr(
        PublishedCatalogs, "_download", lambda *args: (fetched.append(args[-1]), real(*args))[1]
    )
    catalogs = world.catalogs()
    for _ in range(3):
        with pytest.raises((Denied, NotFound), match="not the catalog that was signed"):
            catalogs.fetch(Requirements(""))
    assert len(fetched) == 1


def test_a_copy_that_was_changed_is_fetched_again(world: World) -> None:
    made = world.publish()
    world.replica().close()
    (copy,) = world.cache.rglob("*.catalog")
    content = bytearray(copy.read_bytes())
    content[-1] ^= 1
    copy.write_bytes(content)
    with world.replica() as roll:
        assert _is_mapped(roll) and copy.read_bytes() == world.blob(made).read_bytes()


def test_a_catalog_of_a_publisher_who_is_not_trusted_is_refused(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    SigningKey.generate(other)
    world.publish(key=other)
    with world.replica() as roll:
        assert not _is_mapped(roll) and "not trusted" in roll.health()["why"][0]


@pytest.mark.parametrize("change", ["manifest", "signature", "key"])
def test_a_manifest_that_was_changed_is_refused(world: World, change: str) -> None:
    world.publish()
    for path in [world.pointer(), *(world.location / "main" / "manifests").iterdir()]:
        wrapped = json.loads(path.read_text())
        if change == "manifest":
            wrapped["manifest"] = wrapped["manifest"].replace('"tools":3', '"tools":4')
        else:
            wrapped[change] = "A" * 86 + "=="
        path.write_text(json.dumps(wrapped))
    with world.replica() as roll:
        assert not _is_mapped(roll) and "sign" in roll.health()["why"][0]


@pytest.mark.parametrize("number", [0, FORMAT + 1, "1", None])
def test_another_format_is_refused_plainly(world: World, number: object) -> None:
    world.publish()
    for path in [world.pointer(), *(world.location / "main" / "manifests").iterdir()]:
        path.write_text(json.dumps({**json.loads(path.read_text()), "format": number}))
    with world.replica() as roll:
        assert not _is_mapped(roll)
        assert f"this version of toolroll reads {FORMAT}" in roll.health()["why"][0]


def test_a_catalog_of_another_release_is_passed_over_for_one_of_ours(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = world.publish()
    (world.tools / "catalog.json").write_text("{}")
    with monkeypatch.context() as patched:
        patched.setattr("toolroll.snapshots.publisher.__version__", "9.9.9")
        newer = world.publish()
    assert world.shelf.newest() == newer
    os.unlink(world.tools / "catalog.json")
    with world.replica() as roll:
        assert roll.health()["published"]["in_use"] == ours.to_dict()
    assert "9.9.9" in (Requirements("").refusal(newer) or "")


def test_a_catalog_for_other_tools_is_not_taken(world: World, tmp_path: Path) -> None:
    world.publish(_folder(tmp_path / "others", "burn_down"))
    with world.replica() as roll:
        assert not _is_mapped(roll) and "other tools" in roll.health()["why"][0]
        assert "burn_down" not in roll.catalog.names


def test_a_catalog_of_another_embedder_is_not_taken(world: World) -> None:
    world.publish()
    with Toolroll.from_published(world.catalogs(), world.tools, embedder="hashing") as roll:
        assert not _is_mapped(roll) and "embedder" in roll.health()["why"][0]


def test_a_replica_without_a_folder_takes_each_newer_catalog(world: World, tmp_path: Path) -> None:
    world.publish()
    with Toolroll.from_published(world.catalogs(), embedder="none") as roll:
        newer = world.publish(_folder(tmp_path / "newer", "weather_forecast", "umbrella"))
        _until(lambda: "umbrella" in roll.catalog.names)
        assert roll.health()["published"]["in_use"] == newer.to_dict()
        assert roll.health()["degraded"] == []


def test_a_replica_that_built_its_own_takes_the_catalog_when_it_comes(world: World) -> None:
    with world.replica() as roll:
        assert not _is_mapped(roll)
        world.publish()
        _until(lambda: _is_mapped(roll))
        assert roll.health()["degraded"] == []


def test_a_folder_that_changes_is_read_when_the_caller_says_so(world: World) -> None:
    world.publish()
    with world.replica() as roll:
        _folder(world.tools, "umbrella")
        time.sleep(0.3)
        assert _is_mapped(roll) and "umbrella" not in roll.catalog.names
        roll.refresh()
        assert "umbrella" in roll.catalog.names and roll.health()["degraded"] == ["published"]
        made = world.publish()
        _until(lambda: _is_mapped(roll))
        assert roll.health()["published"]["in_use"] == made.to_dict()


def test_a_bad_newer_catalog_leaves_the_present_one_and_says_so(world: World, tmp_path: Path) -> None:
    world.publish()
    with Toolroll.from_published(world.catalogs(poll_s=600), embedder="none") as roll:
        bad = world.publish(_folder(tmp_path / "newer", "umbrella"))
        world.blob(bad).write_bytes(b"no catalog")
        roll.refresh()
        assert "weather_forecast" in roll.catalog.names and _is_mapped(roll)
        assert "stays in use" in roll.health()["why"][0]


def test_a_replica_that_has_a_catalog_does_not_say_that_it_has_none(world: World) -> None:
    world.publish()
    with Toolroll.from_published(world.catalogs(poll_s=600), embedder="none") as roll:
        world.pointer().write_bytes(b"{")
        roll.refresh()
        (why,) = roll.health()["why"]
        assert "no newer catalog for this process" in why and "stays in use" in why


def test_an_older_catalog_that_somebody_puts_back_is_not_taken(world: World, tmp_path: Path) -> None:
    world.publish()
    old = world.pointer().read_bytes()
    newer = world.publish(_folder(tmp_path / "newer", "umbrella"))
    with Toolroll.from_published(world.catalogs(poll_s=600), embedder="none"):
        pass
    world.pointer().write_bytes(old)
    (world.location / "main" / "manifests" / newer.object_name).unlink()
    with pytest.raises(Unavailable, match="older than the one that was used"):
        Toolroll.from_published(world.catalogs(), embedder="none")


def test_the_same_catalog_is_published_once(world: World) -> None:
    first = world.publish()
    assert world.publish() == first
    assert len(list(world.shelf.every())) == 1


def test_publishers_at_the_same_time_agree_on_the_newest(world: World, tmp_path: Path) -> None:
    folders = [_folder(tmp_path / f"tools{n}", f"tool_{n}", "weather") for n in range(6)]
    threads = [threading.Thread(target=world.publish, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = list(world.shelf.every())
    assert len(every) == 6 and world.shelf.newest() == max(every, key=lambda each: each.order)
    with Toolroll.from_published(world.catalogs(), embedder="none") as roll:
        assert roll.catalog.revision == every[0].catalog_revision


@pytest.mark.parametrize("after", ["part", "catalog", "manifest"])
def test_a_publisher_that_was_killed_leaves_nothing_that_is_half_there(
    world: World, tmp_path: Path, after: str
) -> None:
    first = world.publish()
    pointer = world.pointer().read_bytes()
    second = world.publish(_folder(tmp_path / "newer", "umbrella"))
    world.pointer().write_bytes(pointer)
    if after != "manifest":
        (world.location / "main" / "manifests" / second.object_name).unlink()
    if after == "part":
        content = world.blob(second).read_bytes()
        world.blob(second).unlink()
        world.blob(second).with_name(f"{second.blob}.0.part").write_bytes(content[: len(content) // 2])
    with Toolroll.from_published(world.catalogs(), embedder="none") as roll:
        assert roll.health()["published"]["in_use"] == first.to_dict()
    assert world.publish(tmp_path / "newer").catalog_revision == second.catalog_revision
    assert world.shelf.newest() == next(world.shelf.every())


def test_pruning_keeps_the_newest_and_what_is_young(world: World, tmp_path: Path) -> None:
    made = [world.publish(_folder(tmp_path / f"t{n}", f"tool_{n}")) for n in range(4)]
    (world.location / "main" / "catalogs" / "left.0.part").write_bytes(b"half")
    assert prune(world.shelf, keep=1).kept == 4  # all are young
    later = datetime.now(timezone.utc) + timedelta(hours=2)
    told = prune(world.shelf, keep=2, now=later, dry_run=True)
    assert len(list(world.shelf.every())) == 4
    assert prune(world.shelf, keep=2, now=later) == told
    assert list(world.shelf.every()) == made[:1:-1] and world.shelf.newest() == made[-1]
    assert set(told.catalogs) == {made[0].blob, made[1].blob, "left.0.part"}
    with pytest.raises(InvalidInput, match="keep"):
        prune(world.shelf, keep=0)


def test_a_replica_whose_catalog_is_pruned_while_it_fetches_takes_the_next(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.publish()
    real, pruned = PublishedCatalogs._copied, []

    def copied(self: PublishedCatalogs, manifest: Manifest) -> Path:
        if not pruned:
            pruned.append(world.publish(_folder(tmp_path / "newer", "umbrella")))
            later = datetime.now(timezone.utc) + timedelta(hours=2)
            assert first.blob in prune(world.shelf, keep=1, now=later).catalogs
        return real(self, manifest)

    monkeypatch.setattr(PublishedCatalogs, "_copied", copied)
    with Toolroll.from_published(world.catalogs(), embedder="none") as roll:
        assert "umbrella" in roll.catalog.names


def test_a_mapped_catalog_survives_that_its_copy_is_deleted(world: World) -> None:
    world.publish()
    with world.replica(poll_s=600) as roll:
        for copy in world.cache.rglob("*.catalog"):
            copy.unlink()
        assert roll.select(MESSAGE, k=2).tools


def test_old_copies_are_dropped(world: World, tmp_path: Path) -> None:
    for n in range(4):
        world.publish(_folder(tmp_path / f"t{n}", f"tool_{n}"))
        Toolroll.from_published(world.catalogs(), embedder="none").close()
    assert len([*world.cache.rglob("*.catalog")]) == 2


def test_processes_of_one_machine_fetch_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.publish()
    fetched: list[Path] = []
    real = PublishedCatalogs._download

    def download(self: PublishedCatalogs, manifest: Manifest, path: Path) -> None:
        fetched.append(path)
        time.sleep(0.1)
        real(self, manifest, path)

    monkeypatch.setattr(PublishedCatalogs, "_download", download)
    wanted = Requirements("")
    threads = [threading.Thread(target=lambda: world.catalogs().fetch(wanted)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_follows_by_itself(world: World, tmp_path: Path) -> None:
    world.publish()
    with Toolroll.from_published(world.catalogs(), embedder="none") as roll:
        newer = _folder(tmp_path / "newer", "umbrella")
        child = os.fork()
        if child == 0:
            try:
                _until(lambda: "umbrella" in roll.catalog.names)
            except BaseException:
                os._exit(1)
            os._exit(0)
        world.publish(newer)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_signed_manifest_of_one_name_is_none_of_another(world: World) -> None:
    world.publish()
    os.rename(world.location / "main", world.location / "other")
    with pytest.raises(Unavailable, match="is of the catalog 'main'"):
        Toolroll.from_published(world.catalogs(name="other"), embedder="none")


def test_keys_are_read_strictly(tmp_path: Path) -> None:
    key = SigningKey.generate(tmp_path / "key.pem")
    assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0
    assert SigningKey.read(tmp_path / "key.pem").public == key.public
    (tmp_path / "trusted").write_text(f"# ours\n{key.public.text}  # the builder\n\n")
    assert public_keys([tmp_path / "trusted", key.public.text]) == (key.public,)
    with pytest.raises(InvalidInput, match="never overwritten"):
        SigningKey.generate(tmp_path / "key.pem")
    for wrong in ("ed25519:abc", "ed25519:" + "A" * 43 + "!"):
        with pytest.raises(InvalidInput, match="no public key"):
            public_keys([wrong])
    with pytest.raises(NotFound):
        public_keys(["nothing.pub"])
    with pytest.raises(InvalidInput, match="names no public key"):
        public_keys([])
    with pytest.raises(InvalidInput, match="no private key"):
        SigningKey.read(tmp_path / "trusted")


def test_manifests_that_are_wrong_inside_are_refused(world: World) -> None:
    made, key = world.publish(), SigningKey.read(world.key)
    for change in ({"sha256": "../../etc"}, {"size": -1}, {"size": True}, {"name": "../x"}, {"tools": "3"}):
        wrong = replace(made, **change)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="cannot be read"):
            Manifest.read(wrong.signed(key), (key.public,))
    assert Manifest.read(made.signed(key), (key.public,)) == made


def test_what_the_caller_of_published_catalogs_gets_wrong_is_said(world: World) -> None:
    with pytest.raises(InvalidInput, match="name"):
        world.catalogs(name="../x")
    with pytest.raises(InvalidInput, match="poll_s"):
        world.catalogs(poll_s=0)
    with pytest.raises(InvalidInput, match="trust"):
        world.catalogs(trust=())
    for wrong in ({"location": 5}, {"cache": 5}, {"trust": 5}):
        with pytest.raises(InvalidInput, match=f"{next(iter(wrong))}: is 5, must be"):
            PublishedCatalogs(**{"location": "x", "trust": [world.public], **wrong})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="begin with s3://"):
        PublishedCatalogs("s3:bucket/x", trust=[world.public])
    with pytest.raises(InvalidInput, match=r"PublishedCatalogs\(location"):
        Toolroll.from_published("./cats", world.tools)  # type: ignore[arg-type]
    with Toolroll.demo() as demo, pytest.raises(InvalidInput, match="location: is 5"):
        demo.publish(5, key=world.key)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="^'nowhere': no such file or folder"):
        Toolroll.from_published(world.catalogs(), "nowhere")
    with pytest.raises(InvalidInput, match="published one"), world.replica() as roll:
        roll.refresh([Tool("x", "y")])
