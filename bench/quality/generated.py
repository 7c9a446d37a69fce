"""Recall on tools that were generated from API descriptions: Kubernetes, AWS and GitHub.

``python -m bench.quality.generated [FOLDER]``. The descriptions are read from installed packages, which are
not part of this repository: ``pip install --no-deps kubernetes botocore ghapi`` (each Apache-2.0). A dataset
folder for each API is written into FOLDER, by default a temporary one, and evaluated by `toolroll eval`.

Each API names its tools in a way of its own: camel case with a version inside (listCoreV1NamespacedPod),
service and camel case (s3.ListObjectsV2), and paths (repos/list-branches). The descriptions are one sentence
with the same twelve parameters, HTML, or a few words. The messages in `generated_messages.tsv` were written
by hand for this project, before the tools were searched for them: the API, the right tool with those that
serve as well, and the message.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from toolroll.lab.evaluation.quality import evaluate

MESSAGES = Path(__file__).with_name("generated_messages.tsv")
SERVICES = (
    "cloudformation", "cloudwatch", "dynamodb", "ec2", "ecs", "iam", "kms", "lambda", "logs", "rds",
    "route53", "s3", "secretsmanager", "sns", "sqs",
)  # fmt: skip

_STABLE = re.compile(r"(?P<group>\w+?)_(?P<version>v[0-9]+)_api\.py")
_METHOD = re.compile(r'^        """(?P<name>\w+)\n\n(?P<text>.*?)"""', re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"^ *:param (?P<name>\w+): ?(?P<text>.*)$", re.MULTILINE)


def kubernetes() -> Iterator[dict[str, Any]]:
    """Operations of the stable groups, under the operationId of Kubernetes' own document."""
    for file in sorted((_folder("kubernetes") / "client" / "api").iterdir()):
        api = _STABLE.fullmatch(file.name)
        if api is None:
            continue
        seen = set()
        for method in _METHOD.finditer(file.read_text("utf-8")):
            name, text = method["name"], method["text"]
            if name in seen:  # the same again, with the response's headers
                continue
            seen.add(name)
            verb, _, noun = name.partition("_")
            summary, _, parameters = text.partition(":param ")
            yield _tool(
                verb + _camel(api["group"]) + api["version"].upper() + _camel(noun),
                " ".join(summary.split()),
                {
                    found["name"].lstrip("_"): found["text"]
                    for found in _PARAMETER.finditer(f":param {parameters}")
                    if found["name"] not in _OF_CLIENT
                },
                "kubernetes",
            )


_OF_CLIENT = {"async_req", "_request_timeout", "_return_http_data_only", "_preload_content", "_request_auth",
              "_content_type", "_headers", "_host_index"}  # fmt: skip


def aws() -> Iterator[dict[str, Any]]:
    """Operations of some services, with HTML as their descriptions."""
    for service in SERVICES:
        folder = max((_folder("botocore") / "data" / service).iterdir())
        model = json.loads(gzip.decompress((folder / "service-2.json.gz").read_bytes()))
        for name, operation in model["operations"].items():
            shape = model["shapes"].get(operation.get("input", {}).get("shape"), {})
            members = shape.get("members", {})
            texts = {key: member.get("documentation", "") for key, member in members.items()}
            yield _tool(f"{service}.{name}", operation.get("documentation", ""), texts, service)


def github() -> Iterator[dict[str, Any]]:
    """Operations of the REST API, under paths."""
    source = (_folder("ghapi") / "gh_spec.py").read_text("utf-8")
    for operation in ast.literal_eval(source.partition("=")[2].strip())["ops"]:
        texts = operation.get("param_docs", {})
        keys = [*re.findall(r"\{(\w+)\}", operation["path"]), *operation.get("query_params", ()), *texts]
        group = operation["group"].replace("_", "-")
        yield _tool(
            f"{group}/{operation['name'].replace('_', '-')}",
            operation["summary"],
            {key: texts.get(key, "") for key in keys},
            group,
        )


APIS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "kubernetes": kubernetes,
    "aws": aws,
    "github": github,
}


def write(api: str, folder: Path) -> Path:
    """Writes the dataset of one API, and returns its folder."""
    tools = {tool["name"]: tool for tool in APIS[api]()}
    queries = []
    for number, line in enumerate(MESSAGES.read_text("utf-8").splitlines(), 1):
        of, names, text = line.split("\t")
        if of != api:
            continue
        gold, *others = names.split("|")
        if unknown := {gold, *others} - tools.keys():
            raise SystemExit(f"{MESSAGES.name}:{number}: {api} has no {', '.join(unknown)}")
        context = {"alt": {gold: others}} if others else {}
        queries.append({"id": f"{api}-{number}", "text": text, "gold": [gold], "context": context})
    own = folder / f"generated-{api}"
    own.mkdir(parents=True, exist_ok=True)
    for name, lines in (("tools.jsonl", tools.values()), ("queries.jsonl", queries)):
        (own / name).write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return own


def _tool(name: str, description: str, texts: dict[str, str], server: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": text} for key, text in texts.items()}
    return {
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": properties},
        "server": server,
    }


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _folder(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"needs {package}: pip install --no-deps kubernetes botocore ghapi")
    return Path(found.origin).parent


def main() -> int:
    """Prints a line for each API."""
    with TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        print(f"{'API':<12}{'tools':>7}{'asked':>7}{'recall@1':>10}{'recall@5':>10}{'recall@10':>11}")
        for api in APIS:
            found = evaluate(write(api, folder), ks=(1, 5, 10), examples="none")
            one, five, ten = found.figures.recall
            print(f"{api:<12}{found.tools:>7,}{len(found.queries):>7}{one:>10.3f}{five:>10.3f}{ten:>11.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
