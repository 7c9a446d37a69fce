"""The judge itself: what it builds from, what it asks, what it says."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.table import each_row
from tests.unit.lab.worlds import QUERIES, TOOLS, query, write
from toolroll import Profile, Toolroll
from toolroll.embedders.cached import CachedEmbedder
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.lab.evaluation.dataset import read_dataset
from toolroll.lab.evaluation.quality import evaluate
from toolroll.lab.evaluation.report import mean_over_folders, table, to_json, write_run
from toolroll.model.errors import EmbedderUnavailable, InvalidInput, NotFound
from toolroll.runtime.files import check_writable, replace_file
from toolroll.selection.profiles import PROFILES


class Recorder:
    """Embeds by hashing, and keeps what it was asked."""

    is_instant = True

    def __init__(self) -> None:
        self._inner = HashingEmbedder(64)
        self.identity, self.dim = self._inner.identity, self._inner.dim
        self.indexed: list[str] = []
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]):
        self.indexed += texts
        return self._inner.embed(texts)

    def embed_query(self, text: str):
        self.asked.append(text)
        return self._inner.embed_query(text)


def test_nothing_of_the_test_split_reaches_the_index(tmp_path):
    """Neither text nor label: with other ones in their place the catalog is the same, to its digest."""
    recorder = Recorder()
    first = evaluate(write(tmp_path / "a"), embedder=recorder)
    asked = {line["text"] for line in QUERIES if line["split"] == "test"}
    taught = {line["text"] for line in QUERIES if line["split"] == "train" and line["gold"]}
    assert first.taught == 3
    assert not any(text in indexed for text in asked for indexed in recorder.indexed)
    assert taught <= set(recorder.indexed)  # the recorder does see what is indexed
    others = [
        {**line, "text": f"other {line['id']}", "gold": ["play_song"]} if line["split"] == "test" else line
        for line in QUERIES
    ]
    again = Recorder()
    second = evaluate(write(tmp_path / "b", queries=others), embedder=again)
    assert second.catalog_revision == first.catalog_revision
    assert again.indexed == recorder.indexed
    fewer = [line for line in QUERIES if line["id"] != "t1"]
    assert (
        evaluate(write(tmp_path / "c", queries=fewer), embedder=Recorder()).catalog_revision
        != first.catalog_revision
    )


def test_half_of_train_is_never_asked_and_the_other_half_never_indexed(tmp_path):
    recorder = Recorder()
    found = evaluate(write(tmp_path), embedder=recorder, split="train")
    assert [query.id for query in found.queries] == ["t2", "t4"]
    assert not {query.text for query in found.queries} & set(recorder.indexed)


@pytest.mark.parametrize(("examples", "indexed"), [("given", {"write to Bob"}), ("none", set())])
def test_examples_may_be_the_tools_own_or_none(tmp_path, examples, indexed):
    recorder = Recorder()
    found = evaluate(write(tmp_path), embedder=recorder, examples=examples, split="all")
    assert len(found.queries) == len(QUERIES)
    assert found.taught == 0
    texts = {line["text"] for line in QUERIES} | {"write to Bob"}
    assert texts & set(recorder.indexed) == indexed


def test_each_message_is_timed_by_an_embedder_that_has_to_work_for_it(tmp_path):
    recorder = Recorder()
    found = evaluate(write(tmp_path), embedder=CachedEmbedder(recorder, tmp_path / "cache"))
    assert found.latency.messages == 4
    fresh = [text for text in recorder.asked if text.endswith(" ")]
    timed = [text for text in fresh if text.strip() in {line["text"] for line in QUERIES}]  # and no clauses
    assert len(set(timed)) == len(timed) == 4 * (found.latency.rounds + 1)  # and once to warm up
    for times in (found.latency.with_embedding, found.latency.without_embedding):
        assert 0 < times.p50 <= times.p95 <= times.p99
    assert found.latency.without_embedding.p50 < found.latency.with_embedding.p50


def test_only_candidates_are_ranked_and_what_is_as_right_counts(tmp_path):
    lines = [
        query("a", "send an e-mail message", ["read_mail"], candidates=["read_mail", "play_song"]),
        query("b", "send an e-mail message", ["forecast"], alt={"forecast": ["send_mail"]}),
    ]
    found = evaluate(write(tmp_path, queries=lines))
    assert set(found.answers[0].ranked) <= {"read_mail", "play_song"}
    assert found.figures.recall[0] == 1


def test_what_was_said_before_is_shown_unless_it_is_hidden(tmp_path):
    said = [{"role": "user", "content": "any umbrella weather in Oslo"}]
    folder = write(tmp_path, queries=[query("a", "and tomorrow", ["forecast"], history=said)])
    shown, hidden = Recorder(), Recorder()
    evaluate(folder, embedder=shown)
    evaluate(folder, embedder=hidden, history=False)
    assert any("umbrella" in text for text in shown.asked)
    assert not any("umbrella" in text for text in hidden.asked)


def test_a_refusal_is_one_and_still_says_what_it_would_have_been(tmp_path):
    lines = [query("a", "will it rain tomorrow", ["forecast"]), query("b", "ζ", [])]
    found = evaluate(write(tmp_path, queries=lines))
    assert found.answers[0].ranked[0] == "forecast"
    assert (found.answers[1].ranked, found.answers[1].abstained, found.answers[1].confidence) == (
        (),
        True,
        0.0,
    )
    assert (
        found.figures.abstention.recall
        == found.figures.abstention.precision
        == found.figures.abstention.auroc
        == 1
    )
    for how in (
        {"threshold": 1e6},
        {"least_confidence": 1.0},
        {"least_confidence": 1.0, "on_no_tool": "empty"},
    ):
        strict = evaluate(write(tmp_path, queries=lines), parameters=how)
        assert all(answer.abstained for answer in strict.answers)
        assert strict.figures.abstention.false_refusals == 1
        assert strict.answers[0].ranked[0] == "forecast"


def test_parameters_of_the_profile_can_be_changed(tmp_path):
    folder = write(tmp_path)
    without = evaluate(folder, parameters={"dense": 0.0, "lexical": 0.0})
    assert without.answers[0].ranked == ()
    assert evaluate(folder, profile=Profile(dense=0.0, lexical=0.0)).answers == without.answers
    with pytest.raises(InvalidInput, match="parameter 'density': unknown"):
        evaluate(folder, parameters={"density": 1})


def test_an_embedder_that_fails_on_messages_is_counted_and_named(tmp_path):
    class Mute(Recorder):
        def embed_query(self, text: str):
            raise EmbedderUnavailable("mute")

    found = evaluate(write(tmp_path), embedder=Mute())
    assert found.degraded == {"embedder": 4}
    assert "embedder failed in 4 of 4 selections: embedder: mute" in table([found])


def test_messages_that_are_examples_word_for_word_are_counted(tmp_path):
    found = evaluate(write(tmp_path, queries=[*QUERIES, query("e", " put on some jazz", ["play_song"])]))
    assert found.repeated == 1
    assert "1 of 5 messages are word for word an example too" in table([found])


def test_groups_are_judged_by_themselves(tmp_path):
    found = evaluate(write(tmp_path), by="kind")
    assert {value: part.queries for value, part in found.by.items()} == {"none": 1, "one": 2, "two": 1}
    with pytest.raises(InvalidInput, match="no query has 'colour' in its context; they have kind"):
        evaluate(write(tmp_path), by="colour")


@each_row(
    ("how", "what"),
    [
        ({"ks": ()}, "k: is"),
        ({"ks": (5, 1)}, "must be ascending"),
        ({"ks": (0, 1)}, "at least 1"),
        ({"ks": (1, 1)}, "each once"),
        ({"limit": 0}, "limit: is 0"),
        ({"most_examples": -1}, "most_examples: is -1"),
        ({"split": "dev"}, "split: is 'dev'"),
        ({"examples": "test"}, "examples: is 'test'"),
        ({"split": "all"}, "cannot be an example"),
    ],
)
def test_arguments_out_of_range_are_refused(tmp_path, how, what):
    with pytest.raises(InvalidInput, match=what):
        evaluate(write(tmp_path), **how)


def test_a_split_without_queries_is_said_with_those_there_are(tmp_path):
    with pytest.raises(InvalidInput, match="no query to ask of split 'test'; it has 1 of 'train'"):
        evaluate(write(tmp_path, queries=[QUERIES[4]]))
    with pytest.raises(NotFound, match="embedder 'bert'"):
        evaluate(write(tmp_path), embedder="bert")


def test_the_same_twice_is_the_same_but_for_its_times(tmp_path):
    folder = write(tmp_path)
    one, other = evaluate(folder, limit=3), evaluate(folder, limit=3)
    assert (one.queries, one.answers, one.figures) == (other.queries, other.answers, other.figures)


def test_json_has_no_nan_and_is_a_mean_over_folders(tmp_path):
    served = [line for line in QUERIES if line["gold"]]
    a, b = write(tmp_path / "a"), write(tmp_path / "b", queries=served)
    results = [evaluate(a), evaluate(b)]
    one, both = json.loads(json.dumps(to_json(results[:1]), allow_nan=False)), to_json(results)
    assert one["folder"] == "a" and set(one["recall"]) == {"1", "3", "5", "7", "10"}
    assert both["mean"]["recall"]["1"] == pytest.approx(np.mean([r["recall"]["1"] for r in both["results"]]))
    assert both["mean"]["abstention"]["auroc"] == one["abstention"]["auroc"]  # b has nothing to refuse
    assert both["results"][1]["abstention"]["auroc"] is None
    several = to_json([evaluate(a), evaluate(a, embedder="none")])
    assert [mean["embedder"] for mean in several["means"]] == ["static", "none"]
    assert mean_over_folders(results)[0]["folders"] == 2


def test_a_profile_that_orders_by_outcomes_says_that_nothing_has_been_learnt(tmp_path):
    folder = write(tmp_path / "set")
    assert "nothing has been learnt here" in table([evaluate(folder, profile="learned")])
    assert "nothing has been learnt" not in table([evaluate(folder)])


@each_row("profile", PROFILES)
def test_no_profile_orders_at_random_where_nothing_has_been_learnt(profile):
    roll = Toolroll.demo(profile=profile, embedder="none")
    assert len({roll.select("send the invoice by mail").names for _ in range(20)}) == 1


def test_tables_are_aligned(tmp_path):
    results = [evaluate(write(tmp_path / name)) for name in ("short", "a-longer-name")]
    lines = [line for line in table(results).splitlines() if "default" in line]
    assert len(lines) == 3
    assert len({line.index("default") for line in lines}) == 1
    assert "– " not in table(results[:1]).split("no tool applies")[0]


def test_a_run_file_holds_a_line_a_query_and_is_written_whole(tmp_path):
    found = evaluate(write(tmp_path / "set"))
    file = tmp_path / "run.jsonl"
    write_run(file, found.queries, found.answers)
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["a", "b", "c", "d"]
    assert set(lines[0]) == {"id", "ranked", "score", "abstain"}
    assert lines[0]["ranked"] == list(found.answers[0].ranked)
    assert sorted(os.listdir(tmp_path)) == ["run.jsonl", "set"]
    first = found.answers[0].ranked[0]
    write_run(file, found.queries, found.answers, {first: f"{first} "})
    assert json.loads(file.read_text("utf-8").splitlines()[0])["ranked"][0] == f"{first} "


def test_what_cannot_be_written_is_said_and_leaves_what_was_there(tmp_path):
    with pytest.raises(InvalidInput, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(InvalidInput, match="does not exist"):
        check_writable(tmp_path / "no" / "run.jsonl")
    with pytest.raises(InvalidInput, match="cannot be written"):
        replace_file(tmp_path / "no" / "run.jsonl", b"")
    blocked = tmp_path / "run.jsonl"
    blocked.write_bytes(b"before")
    (tmp_path / f"run.jsonl.{os.getpid()}.tmp").mkdir()
    with pytest.raises(InvalidInput, match="cannot be written"):
        replace_file(blocked, b"after")
    assert blocked.read_bytes() == b"before"


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="has no devices with names")
def test_a_device_is_written_to_and_not_replaced():
    check_writable("/dev/null")
    replace_file("/dev/null", b"x")
    assert not os.path.isfile("/dev/null")


def test_a_dataset_that_was_read_is_not_read_again(tmp_path):
    dataset = read_dataset(write(tmp_path))
    (tmp_path / "queries.jsonl").unlink()
    assert evaluate(replace(dataset, name="kept")).folder == "kept"
    assert TOOLS
