from __future__ import annotations

import json

import pytest

from tests.table import each_row
from toolroll import Tool
from toolroll.cli import main
from toolroll.lab.evaluation.conversations import converse, dialogs_of, table
from toolroll.lab.evaluation.dataset import Dataset, Query
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Definitions

TOOLS = tuple(
    Tool(f"{verb}_{thing}", f"{verb} a {thing}", toolkit=thing)
    for thing in ("mail", "song", "file", "event")
    for verb in ("send", "find", "move", "drop")
)


def query(
    at: int, text: str, gold: list[str], dialog: str | None, turn: object, said: tuple[str, ...] = ()
) -> Query:
    history = tuple({"role": "user", "content": text} for text in said)
    context = {"turn": turn} | ({} if dialog is None else {"dialog": dialog})
    return Query(f"q{at}", text, tuple(gold), history=history, context=context)


DATASET = Dataset(
    "small",
    Definitions(TOOLS),
    (
        query(2, "do it once more", ["find_song"], "a", 1, ("find the song",)),
        query(1, "find the song", ["find_song"], "a", 0),
        query(3, "drop the mail and move the file", ["drop_mail", "move_file"], "b", 0),
        query(4, "thanks", [], "b", 1, ("drop the mail and move the file",)),
        query(5, "alone", ["send_mail"], None, 0),
    ),
)


def test_dialogs_are_played_in_the_order_of_their_turns():
    assert {name: [one.id for one in turns] for name, turns in dialogs_of(DATASET.queries).items()} == {
        "a": ["q1", "q2"],
        "b": ["q3", "q4"],
    }


def test_what_is_counted_is_what_was_sent():
    result = converse(DATASET, embedder="none", k=2)
    assert (result.dialogs, result.turns, result.k) == (2, 4, 2)
    message, history, session = result.played
    assert (message.way, history.way, session.way) == ("message", "history", "session")
    # by itself "do it once more" finds nothing of a song, and there are three turns that call something
    assert message.recall == pytest.approx(2 / 3)
    assert session.recall == history.recall == 1.0
    assert message.most_tools == 2
    # nothing that was sent in the first turn of a dialog has gone in its second, so all of that was cached
    assert 0 < session.cached_with_first < session.cached <= 1
    assert session.cached > message.cached


def test_a_limit_holds_in_every_way():
    result = converse(DATASET, embedder="none", k=6, max_tools=3)
    assert all(one.most_tools <= 3 for one in result.played)


def test_without_dialogs_there_is_nothing_to_play():
    with pytest.raises(InvalidInput, match=r"context\.dialog"):
        converse(Dataset("none", DATASET.definitions, DATASET.queries[-1:]))


@each_row("turn", [None, "1", -1, 1.5])
def test_a_turn_needs_a_number(turn):
    with pytest.raises(InvalidInput, match=r"context\.turn"):
        dialogs_of([query(1, "a", [], "a", turn)])


def test_the_command_prints_what_was_counted(tmp_path, capsys):
    with (tmp_path / "tools.jsonl").open("w") as file:
        for tool in TOOLS:
            line = {
                "name": tool.name,
                "description": tool.description,
                "parameters": {},
                "server": tool.toolkit,
            }
            file.write(json.dumps(line) + "\n")
    with (tmp_path / "queries.jsonl").open("w") as file:
        for one in DATASET.queries:
            line = {"id": one.id, "text": one.text, "gold": list(one.gold)}
            history = {"history": list(one.history)} if one.history else {}
            file.write(json.dumps(line | {"split": "test", "context": dict(one.context) | history}) + "\n")
    assert main(["lab", "converse", str(tmp_path), "-k", "2", "--embedder", "none", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["dialogs"] == 2 and said["played"]["session"]["recall"] == 1.0
    assert main(["lab", "converse", str(tmp_path), "-k", "2", "--embedder", "none", "--set", "growth=0"]) == 0
    assert "2 dialogs, 4 turns, k=2" in capsys.readouterr().out
    assert main(["lab", "converse", str(tmp_path / "nowhere")]) == 1


def test_the_table_has_a_line_for_each_way():
    lines = table([converse(DATASET, embedder="none", k=2)]).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["message", "history", "session"]
