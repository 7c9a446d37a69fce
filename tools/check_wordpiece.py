"""Compares our WordPiece with the `tokenizers` library on the texts of JSON Lines files.

    python tools/check_wordpiece.py FILE.jsonl...

Every string in the files counts as a text. Needs `pip install tokenizers`. Code points that the library's
older Unicode tables do not know may differ; no such text has turned up in a dataset.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import resources

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from toolroll import _core


def strings(value: object) -> Iterator[str]:
    """All strings in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def main(paths: list[str]) -> int:
    """Prints the texts that differ; 1 if there are any."""
    vocabulary = (
        resources.files("toolroll.embedders.data").joinpath("vocab.txt").read_text("utf-8").splitlines()
    )
    ours = _core.WordPiece(vocabulary)
    theirs = Tokenizer(models.WordPiece({p: i for i, p in enumerate(vocabulary)}, unk_token="[UNK]"))
    theirs.normalizer = normalizers.BertNormalizer()
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    texts = different = 0
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for text in (text for line in lines for text in strings(json.loads(line))):
                texts += 1
                if ours.encode(text).tolist() != theirs.encode(text).ids:
                    different += 1
                    print(f"{path}: {text[:200]!r}")
    print(f"{texts} texts, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
