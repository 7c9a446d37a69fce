"""The bank of capabilities: its lint, and that the lint finds what it looks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools.train import lint_bank
from tools.train.capabilities import BANK, Capability, read_bank, siblings

from tests.table import each_row

# The evaluation sets in the repository.
IN_REPOSITORY = [Path(__file__).parents[2] / "data" / "demo_messages.jsonl"]


def capability(id: str = "calendar.event.move", **fields: Any) -> dict[str, Any]:
    messages = [
        f"message {word} of {id}" for word in ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    ]
    return {
        "id": id,
        "descriptions": ["Moves an event", "Another time for an event"],
        "messages": messages,
    } | fields


def bank(folder: Path, *records: dict[str, Any]) -> Path:
    (folder / "some.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    return folder


def found(folder: Path, *evaluation: str) -> list[str]:
    return list(lint_bank.problems(folder, evaluation))


@pytest.mark.slow
def test_the_bank_has_no_problem_and_no_message_of_an_evaluation_set() -> None:
    evaluation = [text for path in IN_REPOSITORY for text in lint_bank.evaluation_messages(path)]
    assert len(evaluation) > 100
    assert found(BANK, *evaluation) == []


def test_the_bank_is_broad() -> None:
    capabilities = read_bank()
    assert len(capabilities) > 2_000
    assert sum(len(one.messages) for one in capabilities) > 20_000
    assert len(siblings(capabilities)) > 300


def test_the_capabilities_for_minilm_alone_are_new() -> None:
    table, more, whole = read_bank(), read_bank(BANK / "more"), read_bank(more=True)
    assert len(more) > 1_000
    assert sorted(one.id for one in whole) == sorted({one.id for one in (*table, *more)})
    messages = {message for one in table for message in one.messages}
    assert not messages & {message for one in more for message in one.messages}


def test_the_capabilities_for_the_next_tuning_are_new() -> None:
    whole, waiting = read_bank(more=True), read_bank(BANK / "next")
    assert len(whole) + len(waiting) > 5_000
    assert sum(len(one.messages) for one in (*whole, *waiting)) > 50_000
    assert not {one.id for one in whole} & {one.id for one in waiting}
    messages = {message for one in whole for message in one.messages}
    assert not messages & {message for one in waiting for message in one.messages}


@pytest.mark.slow
@pytest.mark.parametrize("part", ["more", "next"])
def test_each_part_of_the_bank_has_no_problem(part: str) -> None:
    evaluation = [text for path in IN_REPOSITORY for text in lint_bank.evaluation_messages(path)]
    assert found(BANK / part, *evaluation) == []


def test_each_message_in_other_languages_belongs_to_a_message_of_the_bank() -> None:
    known = {one.id: one.messages for one in read_bank()}
    languages = {"zh", "es", "fr", "de", "pt", "ru", "ja", "ko", "ar", "hi", "it", "tr", "vi", "pl", "ind"}
    lines = [
        json.loads(line)
        for file in sorted((BANK / "languages").glob("*.jsonl"))
        for line in file.read_text("utf-8").splitlines()
    ]
    assert len(lines) > 500
    for line in lines:
        assert line.keys() == {"id", "english", *languages}, line["id"]
        assert line["english"] in known[line["id"]], line["id"]
        assert all(line[language].strip() != line["english"] for language in languages), line["id"]


def test_a_sound_capability_has_no_problem(tmp_path: Path) -> None:
    assert found(bank(tmp_path, capability(), capability("calendar.event.cancel"))) == []


@each_row(
    ("record", "problem"),
    [
        ({"id": "calendar"}, "must be two to four words"),
        ({"id": "Calendar event"}, "must be two to four words"),
        ({"descriptions": ["Moves an event"]}, "has 1 descriptions"),
        ({"descriptions": ["Moves an event", "moves an  event"]}, "has a description twice"),
        ({"messages": ["move it"] * 8}, "message 'move it' is also at"),
        ({"messages": ["move it"]}, "has 1 messages"),
        ({"messages": ["move it", " "]}, "messages must be a list of texts"),
        ({"more": 1}, "must hold id, descriptions and messages"),
        ({"id": 5}, "must be a string"),
    ],
)
def test_a_malformed_capability_is_reported_with_its_place(
    tmp_path: Path, record: dict[str, Any], problem: str
) -> None:
    first, *_ = found(bank(tmp_path, capability() | record))
    assert first.startswith("some.jsonl:1: ") and problem in first


def test_a_line_that_is_no_json_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_text('{"id": \n', "utf-8")
    assert found(tmp_path)[0].startswith("some.jsonl:1: ")


def test_ids_and_messages_are_unique_over_all_files(tmp_path: Path) -> None:
    bank(tmp_path, capability())
    (tmp_path / "zother.jsonl").write_text(json.dumps(capability()), "utf-8")
    problems = found(tmp_path)
    assert len(problems) == 9 and all("is also at some.jsonl:1" in problem for problem in problems)


def test_a_field_or_an_action_that_dominates_a_large_bank_is_reported(tmp_path: Path) -> None:
    records = [capability(f"calendar.event{n}.move") for n in range(lint_bank.LEAST_BALANCED)]
    assert [problem.partition(":")[0] for problem in found(bank(tmp_path, *records))] == [
        "field 'calendar'",
        "action 'move'",
    ]


@each_row(
    ("message", "is_copy"),
    [
        ("Push the weekly standup back half an hour", True),
        ("push the WEEKLY standup  back half an hour", True),
        ("could you push my weekly standup half an hour", True),
        ("push the release notes to the team", False),
        ("half an hour of yoga, please", False),
    ],
)
def test_a_message_that_says_most_of_an_evaluation_message_is_a_copy(message: str, is_copy: bool) -> None:
    copies = lint_bank.Copies(["Push the weekly standup back half an hour", "What is the weather in Oslo?"])
    assert (copies.original(message) is not None) == is_copy


def test_a_copy_is_reported_with_the_original(tmp_path: Path) -> None:
    folder = bank(
        tmp_path, capability(messages=[*capability()["messages"], "is it raining in Oslo tomorrow"])
    )
    assert "Is it raining in Oslo tomorrow?" in found(folder, "Is it raining in Oslo tomorrow?")[0]


def test_evaluation_messages_are_read_from_folders_and_files(tmp_path: Path) -> None:
    folder = tmp_path / "sets" / "one"
    folder.mkdir(parents=True)
    (folder / "queries.jsonl").write_text('{"id": "1", "text": "a"}\n', "utf-8")
    (tmp_path / "demo.jsonl").write_text('{"message": "b"}\n', "utf-8")
    assert lint_bank.evaluation_messages(tmp_path / "sets") == ["a"]
    assert lint_bank.evaluation_messages(tmp_path / "demo.jsonl") == ["b"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match=r"has no queries\.jsonl"):
        lint_bank.evaluation_messages(tmp_path / "empty")


def test_siblings_share_an_object_and_names_begin_with_the_action() -> None:
    ids = ("pr.review.request", "pr.review.submit", "pr.open", "mail.send")
    some = [Capability(id, ("a", "b"), ("m",)) for id in ids]
    assert siblings(some) == [[0, 1]]
    assert [one.name for one in some] == ["request review", "submit review", "open pr", "send mail"]
    assert some[0].words == "pr review request"
