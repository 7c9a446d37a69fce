"""Published catalogs on an object store, over a registry, and by the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("cryptography")

from toolroll import Follow, PublishedCatalogs, Recording, Toolroll
from toolroll.cli import main
from toolroll.snapshots.keys import PublicKey, SigningKey
from toolroll.snapshots.shelf import NEWEST


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A server with S3's interface and one bucket; what s3fs takes to reach it."""
    moto, boto3 = pytest.importorskip("moto.server"), pytest.importorskip("boto3")
    pytest.importorskip("s3fs")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    account = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    boto3.client("s3", endpoint_url=url, region_name="us-east-1", **account).create_bucket(Bucket="tools")
    yield {
        "key": "test",
        "secret": "test",
        "endpoint_url": url,
        "client_kwargs": {"region_name": "us-east-1"},
        "skip_instance_cache": True,
    }
    server.stop()


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    lines = [{"name": name, "description": f"{name} for a place"} for name in ("weather", "send_mail")]
    (folder / "tools.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, str]:
    assert main(["catalogs", "key", str(tmp_path / "key.pem"), "--json"]) == 0
    public: str = json.loads(capsys.readouterr().out)["public_key"]
    return tmp_path / "key.pem", public


def _say(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert main(["catalogs", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of botocore and werkzeug
def test_an_object_store_serves_builders_replicas_and_pruning(
    s3: dict[str, Any], tools: Path, key: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = key
    options = json.dumps(s3)
    at = ("--to", "s3://tools/catalogs", "--storage-options", options)
    made = _say(capsys, "build", tools, *at, "--key", private, "--embedder", "none")
    assert _say(capsys, "build", tools, *at, "--key", private, "--embedder", "none") == made
    listed = _say(capsys, "list", *at, "--trust", public)["catalogs"]
    assert [each["sha256"] for each in listed] == [made["sha256"]] and listed[0]["newest"]
    catalogs = PublishedCatalogs(
        "s3://tools/catalogs", trust=[public], cache=tmp_path / "cache", poll_s=0.1, options=s3
    )
    with Toolroll.from_published(catalogs, embedder="none") as roll:
        assert roll.health()["published"]["in_use"]["sha256"] == made["sha256"]
        (tools / "catalog.json").write_text("{}")
        assert _say(capsys, "build", tools, *at, "--key", private, "--embedder", "none") != made
    told = _say(capsys, "prune", *at, "--keep", 1)
    assert told["kept"] == 2  # both are young


def test_a_registrys_replica_maps_the_catalog_of_exactly_its_tools(
    database_url: str, tools: Path, key: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = key
    assert main(["import", str(tools), "--to", database_url]) == 0
    capsys.readouterr()
    made = _say(
        capsys, "build", database_url, "--to", tmp_path / "shared", "--key", private, "--embedder", "none"
    )
    assert made["registry_revision"] > 0 and made["source"] == ""
    catalogs = PublishedCatalogs(tmp_path / "shared", trust=[public], cache=tmp_path / "cache")
    follow = Follow(published=catalogs, poll_s=0.1)
    recording = Recording(outbox=tmp_path / "outbox")
    with Toolroll.open(database_url, embedder="none", follow=follow, recording=recording) as roll:
        health = roll.health()
        assert health["published"]["in_use"]["sha256"] == made["sha256"] and health["degraded"] == []
        assert roll.select("weather for a place").names
        (tools / "tools.jsonl").write_text(json.dumps({"name": "umbrella", "description": "for rain"}) + "\n")
        assert main(["import", str(tools), "--to", database_url]) == 0
        roll.refresh()
        assert "umbrella" in roll.catalog.names
        health = roll.health()
        assert health["published"]["in_use"] is None and "published" in health["degraded"]


def test_the_command_line_says_what_is_wrong(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, said in (
        (["build", tools, "--to", tmp_path / "s", "--key", tmp_path / "none.pem"], "no such file"),
        (["build", tools, "--to", tmp_path / "s"], "TOOLROLL_CATALOG_KEY"),
        (["list", "--to", "nosuch://x/y"], "nosuch"),
        (["list", "--to", tmp_path, "--name", "../x"], "name"),
        (["list", "--to", tmp_path, "--trust", "ed25519:x"], "no public key"),
        (["list", "--to", tmp_path, "--storage-options", "[1]"], "JSON object"),
        (["prune", "--to", tmp_path, "--keep", "0"], "--keep"),
    ):
        assert main(["catalogs", *map(str, arguments)]) != 0
        printed = capsys.readouterr()
        assert said in printed.err and "Traceback" not in printed.err
    for command in ("list", "prune"):
        for place in (tmp_path, tmp_path / "none"):
            assert main(["catalogs", command, "--to", str(place)]) == 1
            assert f"nothing is published at {place}/main" in capsys.readouterr().err


def test_people_are_told_what_a_build_and_a_prune_did_not_do(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["catalogs", "key", str(tmp_path / "k.pem")]) == 0
    public, said = capsys.readouterr()
    key_id = PublicKey(public.strip()).key_id
    assert key_id in said
    at = ["--to", str(tmp_path / "shared")]
    build = ["catalogs", "build", str(tools), *at, "--key", str(tmp_path / "k.pem"), "--embedder", "none"]
    assert main(build) == 0
    assert "already" not in capsys.readouterr().out
    assert main(build) == 0
    assert "already the newest" in capsys.readouterr().out
    (tools / "catalog.json").write_text("{}")
    assert main(build) == 0
    assert "already" not in capsys.readouterr().out
    assert main(["catalogs", "prune", *at, "--keep", "1"]) == 0
    assert "2 are kept (1 of them younger than an hour)" in capsys.readouterr().out
    assert main(["catalogs", "prune", *at, "--keep", "2"]) == 0
    assert "2 are kept\n" in capsys.readouterr().out
    SigningKey.generate(tmp_path / "other.pem")
    trust = SigningKey.read(tmp_path / "other.pem").public.text
    assert main(["catalogs", "list", *at, "--trust", trust]) == 0
    assert key_id in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["broken", "old", "missing"])
def test_a_list_tells_what_is_wrong_with_the_pointer_that_replicas_read(
    tools: Path, key: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    at = ("--to", tmp_path / "shared")
    build = ("build", tools, *at, "--key", key[0], "--embedder", "none")
    _say(capsys, *build)
    pointer = tmp_path / "shared" / "main" / NEWEST
    old = pointer.read_bytes()
    (tools / "catalog.json").write_text("{}")
    _say(capsys, *build)
    assert _say(capsys, "list", *at)["problems"] == []
    if damage == "missing":
        pointer.unlink()
    else:
        pointer.write_bytes(old if damage == "old" else b"{")
    told = _say(capsys, "list", *at)
    (problem,) = told["problems"]
    assert NEWEST in problem and len(told["catalogs"]) == 2
    _say(capsys, *build)
    assert _say(capsys, "list", *at)["problems"] == []


def test_a_service_maps_the_catalog_of_its_registry(
    new_database_url: Any,
    tools: Path,
    key: tuple[Path, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("fastapi")
    from toolroll.embedders import named
    from toolroll.server.resources import close, open_registry
    from toolroll.server.settings import ServerSettings

    monkeypatch.setenv("TOOLROLL_CACHE", str(tmp_path / "cache"))
    private, public = key
    url = new_database_url("sqlite")
    assert main(["import", str(tools), "--to", url]) == 0
    capsys.readouterr()
    made = _say(capsys, "build", url, "--to", tmp_path / "shared", "--key", private)
    settings = ServerSettings(
        catalog=url,
        published=str(tmp_path / "shared"),
        published_trust=(public,),
        outbox=str(tmp_path / "outbox"),
    )
    roll, registry = open_registry(settings, named.embedder("static"))
    try:
        assert roll.health()["published"]["in_use"]["sha256"] == made["sha256"]
    finally:
        close(roll, registry)


def test_a_location_that_hangs_delays_a_registrys_change_once(
    new_database_url: Any, tools: Path, key: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import toolroll.homes.published as home
    from toolroll.snapshots.replica import PublishedCatalogs as Catalogs

    url = new_database_url("sqlite")
    assert main(["import", str(tools), "--to", url]) == 0
    waited: list[float] = []

    def hang(self: Any, wanted: Any, newer_than: Any) -> None:
        waited.append(1.0)
        time.sleep(0.5)

    monkeypatch.setattr(Catalogs, "_fetch", hang)
    monkeypatch.setattr(home, "_LATER_S", 0.1)
    catalogs = PublishedCatalogs(tmp_path / "shared", trust=[key[1]], cache=tmp_path / "cache", timeout_s=0.1)
    with Toolroll.open(
        url,
        embedder="none",
        follow=Follow(published=catalogs, poll_s=0.1),
        recording=Recording(outbox=tmp_path / "outbox"),
    ) as roll:
        assert "no answer" in roll.health()["published"]["problem"] and len(roll) == 2
        for name in ("umbrella", "tent"):
            (tools / "tools.jsonl").write_text(json.dumps({"name": name, "description": "for rain"}) + "\n")
            assert main(["import", str(tools), "--to", url]) == 0
            roll.refresh()
            assert name in roll.catalog.names
    assert len(waited) == 1
