"""What is believed of prompts and resources, and whose a resource is."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")

from tests.table import each_row
from toolroll.cli import main
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.listing import Listing
from toolroll.gateway.places import private_folder, registry_url, state_folder
from toolroll.gateway.reviewed_offers import ResourceClaims, ReviewedOffers, ServerOffers, owners
from toolroll.registry.registry import Registry

ONE = {"review": {"name": "review", "description": "Reviews"}}
NOTE = {
    "note://1": {"uri": "note://1", "name": "one", "annotations": {"lastModified": "2026-01-01T00:00:00Z"}}
}


def offers_in(folder, review="changed", servers=("a", "b")):
    return ReviewedOffers(folder, dict.fromkeys(servers, review))


def test_nothing_waits_of_the_first_list_and_of_a_list_that_is_the_same(tmp_path):
    for _ in range(2):
        offers = offers_in(tmp_path)
        offers.take_over("a", Listing(prompts=ONE, resources=NOTE))
        assert (offers.offered["a"].prompts, offers.offered["a"].resources) == (ONE, NOTE)
        assert offers.offered["a"].held == ()


def test_a_first_list_is_one_that_has_something(tmp_path):
    offers = offers_in(tmp_path)
    offers.take_over("a", Listing())
    offers.take_over("a", Listing(prompts=ONE))
    offers.take_over("b", Listing(tools={"t": {}}))
    offers.take_over("b", Listing(prompts=ONE))
    assert offers.offered["a"].prompts == ONE and offers.offered["b"].prompts == {}


@pytest.mark.parametrize(("review", "held"), [("auto", 0), ("changed", 0), ("all", 2)])
def test_the_mode_says_whether_the_first_list_waits(tmp_path, review, held):
    offers = offers_in(tmp_path, review)
    offers.take_over("a", Listing(prompts=ONE, resources=NOTE))
    assert len(offers.offered["a"].held) == held


def test_a_resource_whose_content_changes_does_not_wait(tmp_path):
    offers = offers_in(tmp_path)
    offers.take_over("a", Listing(resources=NOTE))
    changed = {**NOTE["note://1"], "size": 7, "annotations": {"lastModified": "2026-02-01T00:00:00Z"}}
    offers.take_over("a", Listing(resources={"note://1": changed}))
    assert offers.offered["a"].resources == {"note://1": changed}


def test_what_is_approved_is_what_was_read_and_nothing_later(tmp_path):
    offers = offers_in(tmp_path)
    offers.take_over("a", Listing(prompts=ONE))
    read = {"review": {"name": "review", "description": "Reviews well"}}
    offers.take_over("a", Listing(prompts=read))
    waiting = offers.waiting("a")
    later = {"review": {"name": "review", "description": "Reviews, and mails a copy"}}
    offers.take_over("a", Listing(prompts=later))
    offers.approve("a", waiting)
    assert offers.is_changed("a") and not offers.is_changed("a")
    offers.take_over("a", Listing(prompts=later))
    assert offers.offered["a"].prompts == {"review": {"name": "review", "arguments": []}}
    offers.take_over("a", Listing(prompts=read))
    assert offers.offered["a"].prompts == read


def test_the_records_of_a_server_have_a_limit_on_the_disk(tmp_path):
    offers = offers_in(tmp_path)
    long = {f"note://{number}/{'x' * 3_000}": {"uri": "u", "name": "n" * 300} for number in range(5_000)}
    offers.take_over("a", Listing(resources=long))
    offers.take_over(
        "a", Listing(resources=long, prompts={f"p{at}": {"name": f"p{at}"} for at in range(5_000)})
    )
    assert 1_000_000 < sum(path.stat().st_size for path in tmp_path.iterdir()) < 8_000_000


def test_a_damaged_record_is_as_none(tmp_path):
    for damage in (
        b"",
        b"[]",
        b"\xff",
        b'{"prompts": {"review": 1}}',
        b'{"prompts": [], "resources": {"a": []}}',
    ):
        (tmp_path / "a.json").write_bytes(damage)
        offers = offers_in(tmp_path)
        offers.take_over("a", Listing(prompts=ONE, resources=NOTE))
        assert offers.offered["a"].resources.keys() == NOTE.keys()


def claims(resources=(), templates=()):
    return ResourceClaims.of(resources, templates)


@each_row(
    ("uri", "having"),
    [
        ("a://1", ["first"]),  # listed, before another's template
        ("a://2", ["first", "second"]),  # two templates
        ("a://deep/2", ["first", "second"]),  # a longer template is no better claim
        ("b://1", ["first"]),  # approved, before what was listed later
        ("b://1?x=1", ["first"]),
        ("a://new", ["first", "second"]),  # listed later, and fits another's approved template
        ("c://1", ["second"]),
        ("c://new", ["first"]),  # listed later, before a template of later
        ("d://1", []),
        ("", []),
    ],
)
def test_a_resource_belongs_to_whoever_had_it_first(uri, having):
    offered = {
        "first": ServerOffers(
            approved=claims(["a://1", "b://1"], ["a://{x}"]), later=claims(["c://new", "a://new"])
        ),
        "second": ServerOffers(
            approved=claims([], ["a://{y}", "a://deep/{z}", "{+any}"]),
            later=claims(["b://1"], ["c://{x}", "b://{x}"]),
        ),
    }
    assert owners(offered, uri) == having


def test_the_command_approves_what_it_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}}))
    configuration, state = read_configuration(path, {}), private_folder(state_folder(path))
    offers = ReviewedOffers.of_configuration(configuration, state)
    words = ["mcp", "approve", "a", "--config", str(path), "--yes"]
    with Registry.open(registry_url(configuration.options, state)) as registry:
        registry.sync([{"name": "old"}], plugin="a", toolkit="a", review="changed")
        offers.take_over("a", Listing(prompts=ONE))
        assert main(words) == 1 and "nothing waits" in capsys.readouterr().err
        later = {"review": {"name": "review", "description": "Reviews \u202e"}}
        offers.take_over("a", Listing(prompts=later))
        new = {
            "name": "new",
            "title": "Called new",
            "description": "Does more",
            "inputSchema": {"type": "object", "title": "Title"},
            "outputSchema": {"type": "object", "description": "Of results"},
            "annotations": {"title": "Noted", "readOnlyHint": True},
            "_meta": {"note": "Of more"},
        }
        registry.sync([{"name": "old"}, new], plugin="a", toolkit="a", review="all")
        assert main(words) == 0
        told = capsys.readouterr().out
        shown = (
            "Reviews \\u202e",
            "new (version 1",
            "Does more",
            "Title",
            "Called new",
            "Of results",
            "Noted",
        )
        assert all(text in told for text in (*shown, "readOnlyHint", "Of more"))
        assert registry.tool("new").review == "approved"
    offers.take_over("a", Listing(prompts=later))
    assert offers.offered["a"].prompts == later
