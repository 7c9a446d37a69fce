"""What kind of thing a message asks for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from tools.train.categories import CLASSES, RIDGE, answers, cues_of, fit, of_verbs, softmax, written

from tests.table import each_row
from toolroll.embedders.static import StaticEmbedder
from toolroll.learning.categories import CATEGORIES, FILE, GENERAL, LONGEST, built_in, category, cue_words
from toolroll.model.errors import InvalidInput

LABELS = Path(__file__).parents[2] / "data" / "message_categories.tsv"
EMBEDDER = StaticEmbedder()


def asks(text: str) -> str:
    return category(text, EMBEDDER.embed_query(text))


def record() -> dict[str, object]:
    value: dict[str, object] = json.loads(
        resources.files("toolroll.learning").joinpath(FILE).read_text("utf-8")
    )
    return value


@each_row(
    ("text", "kind"),
    [
        ("Show me all invoices from Brandt", "read"),
        ("Where is the nearest bakery?", "read"),
        ("Delete the invoice from Brandt", "write"),
        ("Please turn off the heating in the cellar", "write"),
        ("Calculate the average of the invoices from Brandt", "analyse"),
        ("Why did our heating costs rise so much?", "analyse"),
        ("Write a reminder to Brandt about the invoice", "generate"),
        ("Draw a picture of a bakery", "generate"),
    ],
)
def test_what_is_to_be_done_decides_not_what_it_is_done_to(text: str, kind: str) -> None:
    assert asks(text) == kind


@each_row("text", ["Thank you very much!", "My name is Lena Brandt", "", "?", "🙂🙂", "42"])
def test_what_asks_for_nothing_is_general(text: str) -> None:
    assert asks(text) == GENERAL


@each_row("text", ["내일 서울 날씨 알려줘", "删除旧文件", "удали старые файлы", "古いファイルを delete して"])
def test_a_message_in_another_script_is_general(text: str) -> None:
    assert asks(text) == GENERAL


def test_other_languages_in_latin_letters_mostly_have_their_kind_or_are_general() -> None:
    texts = {
        "Wie wird das Wetter morgen in Köln?": "read", "Lösche die alten Sicherungen": "write",
        "Zeig mir meine Termine": "read", "Borra los archivos antiguos": "write",
        "Escribe un poema sobre el mar": "generate", "¿Por qué ha subido la factura?": "analyse",
        "Montre-moi mes rendez-vous": "read", "Supprime les anciens fichiers": "write",
        "Envie um e-mail para a Ana": "write", "Che tempo fa a Roma domani?": "read",
        "Boek een tafel voor twee": "write", "Vis mig mine kontakter": "read",
    }  # fmt: skip
    answers = [(asks(text), kind) for text, kind in texts.items()]
    assert sum(answer in (GENERAL, kind) for answer, kind in answers) >= 9
    assert sum(answer == kind for answer, kind in answers) >= 3


def test_every_answer_is_a_category_or_general() -> None:
    assert {asks(text) for _, text in written()} <= {*CATEGORIES, GENERAL}


def test_a_classifier_that_is_less_sure_than_it_must_be_says_general() -> None:
    message = [("write", "Delete the old backups")]
    assert answers(built_in(), message) == ["write"]
    assert answers(replace(built_in(), least=0.9999), message) == [GENERAL]


@each_row(
    "frame", ["{}", "Please {}", "Can you {}?", "Hi, I'd like you to {}", "Could you kindly {}, please"]
)
def test_politeness_does_not_hide_what_is_wanted(frame: str) -> None:
    assert "^delete" in cue_words(frame.format("delete the file"))


def test_cues_are_words_in_lower_case_with_either_apostrophe() -> None:
    assert cue_words("What’s DELETE-d, please?") == {"^what's", "what's", "delete", "d", "please"}
    assert cue_words("") == set()
    assert cue_words("please can you") == {"please", "can", "you"}


def test_a_pasted_document_is_not_read_to_its_end() -> None:
    assert "delete" not in cue_words("word " * LONGEST + "delete")


def test_a_vector_of_another_embedder_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"has shape \(384,\), must be \(256,\)"):
        category("Show my files", np.ones(384, np.float32))


def test_the_file_is_small_and_belongs_to_the_built_in_table_and_to_the_messages() -> None:
    models = resources.files("toolroll.learning")
    assert len(models.joinpath(FILE).read_bytes()) <= 20_000
    kept = record()
    assert kept["embedder"] == EMBEDDER.identity
    content = Path(__file__).parents[3].joinpath("tools/train/category_messages.tsv").read_text("utf-8")
    assert kept["messages"] == hashlib.sha256(content.encode()).hexdigest()
    assert list(kept["cues"]) == cues_of([*written(), *of_verbs()])  # type: ignore[call-overload]
    assert built_in().classes == CLASSES


def test_the_messages_are_many_and_none_is_there_twice() -> None:
    messages = written()
    assert len({text.lower() for _, text in messages}) == len(messages) >= 600
    assert {kind for kind, _ in messages} == set(CLASSES)


def test_it_remembers_what_it_was_taught() -> None:
    messages = [message for message in written() if message[0] != GENERAL]
    said = answers(built_in(), messages)
    told = [kind == answer for (kind, _), answer in zip(messages, said, strict=True) if answer != GENERAL]
    assert len(told) > 0.9 * len(messages)
    assert sum(told) > 0.9 * len(told)


def test_the_labels_for_judging_are_each_of_another_message_and_of_a_known_category() -> None:
    lines = [line.split("\t") for line in LABELS.read_text("utf-8").splitlines()]
    assert {len(line) for line in lines} == {3}
    assert {kind for *_, kind in lines} == set(CLASSES)
    assert len({(dataset, name) for dataset, name, _ in lines}) == len(lines) >= 200


def test_training_finds_the_same_minimum_as_scipy() -> None:
    rng = np.random.default_rng(0)
    rows, columns, classes = 120, 6, len(CLASSES)
    x = np.concatenate([rng.normal(size=(rows, columns)) * 0.4, np.ones((rows, 1))], axis=1)
    kinds = rng.integers(0, classes, rows)
    weights = rng.uniform(0.2, 1, rows)
    ridge = np.repeat([RIDGE, 0.0], [columns, 1])[:, None]

    def loss(flat: np.ndarray) -> float:
        learnt = flat.reshape(columns + 1, classes)
        chances = softmax(x @ learnt)[np.arange(rows), kinds]
        return float(-(weights / weights.sum() * np.log(chances)).sum() + 0.5 * (ridge * learnt**2).sum())

    ours = fit(x, kinds, weights)
    best = minimize(loss, np.zeros(ours.size), method="BFGS", options={"gtol": 1e-7})
    assert loss(ours.ravel()) <= best.fun + 1e-6
