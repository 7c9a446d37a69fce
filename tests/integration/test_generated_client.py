"""A client that openapi-python-client makes from the description of a running service, used against it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("openapi_python_client")

from tests.integration.test_serve import Running, serving
from toolroll import Registry

pytestmark = pytest.mark.slow
PACKAGE = "made_from_the_description"


def of(module: str, name: str | None = None) -> Any:
    """A module of the client, or the class in it."""
    found = importlib.import_module(f"{PACKAGE}.{module}")
    return getattr(found, name) if name else found


def model(name: str, /, **fields: Any) -> Any:
    """A body, by the name of its schema."""
    file = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    return of(f"models.{file}", name).from_dict(fields)


def call(operation: str, *path: str, client: Any, **arguments: Any) -> Any:
    """The answer to a request, by its operation: status_code, headers and parsed."""
    return of(f"api.{operation}").sync_detailed(*path, client=client, **arguments)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A running service, and the client that was made from its description."""
    folder = tmp_path_factory.mktemp("service")
    with serving(folder) as service:
        scripts = str(Path(sys.executable).parent)  # the generator formats what it writes with ruff
        subprocess.run(
            [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning", "--meta", "none"]
            + ["--url", f"{service.base}/openapi.json", "--output-path", str(folder / PACKAGE)],
            check=True,
            cwd=folder,
            env={**os.environ, "PATH": os.pathsep.join([scripts, os.environ["PATH"]])},
        )
        sys.path.insert(0, str(folder))
        try:
            yield service
        finally:
            sys.path.remove(str(folder))
            for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
                del sys.modules[name]


def client(service: Running, key: str | None = None) -> Any:
    return of("client", "AuthenticatedClient")(base_url=service.base, token=key or service.key)


def test_every_operation_has_a_module(service):
    operations = [
        operation["operationId"]
        for methods in service("/openapi.json")["paths"].values()
        for operation in methods.values()
    ]
    made = {file.stem for file in Path(of("api").__file__).parent.glob("*/*.py")} - {"__init__"}
    assert made == set(operations)
    for file in Path(of("api").__file__).parent.glob("*/*.py"):
        of(f"api.{file.parent.name}.{file.stem}")  # a body that could not be made fails to import


def test_a_selection_and_its_outcome(service):
    with client(service) as caller:
        body = model("SelectBody", message="asks a host", k=3, context={"org": "acme", "tier": "team"})
        picked = call(
            "selections.selections_select", client=caller, body=body, schemas="openai", receipt=True
        ).parsed
        assert picked.names == ["ping"]
        assert picked.schemas[0].to_dict()["function"]["name"] == "ping"
        outcome = model("OutcomeBody", selection=picked.receipt, called={"ping": True})
        assert call("outcomes.outcomes_record", client=caller, body=outcome).parsed.counted == 1
        assert call("outcomes.outcomes_record", client=caller, body=outcome).parsed.counted == 0
        batch = model("BatchBody", requests=[{"message": "a host"}, {"message": "a host", "k": -1}])
        first, second = call("selections.selections_select_batch", client=caller, body=batch).parsed.results
        assert first.names == ["ping"]
        assert second["status"] == 422


def test_a_conversation(service):
    with client(service) as caller:
        turn = model("TurnBody", message="asks a host", context={"org": "acme"})
        assert call("sessions.sessions_select", "talk", client=caller, body=turn).parsed.names == ["ping"]
        check = model("CheckBody", name="ping", context={"org": "acme"})
        assert call("sessions.sessions_check", "talk", client=caller, body=check).parsed.allowed
        used = model("UsedBody", called={"ping": True}, context={"org": "acme"})
        assert call("sessions.sessions_used", "talk", client=caller, body=used).parsed.refused == []
        assert call("sessions.sessions_read", "talk", client=caller, org="acme").parsed.is_open
        assert call("sessions.sessions_delete", "talk", client=caller, org="acme").status_code == 204


def test_tools_are_added_changed_and_listed(service):
    with Registry.open(service.url) as registry:
        key = registry.keys.add("admin", roles=["read", "administer"], org=None)[1]
    with client(service, key) as caller:
        body = model("ToolsCreateToolBody", name="trace_route", description="shows the way to a host")
        deadline = time.monotonic() + 60
        while (created := call("tools.tools_create_tool", client=caller, body=body)).status_code == 401:
            assert time.monotonic() < deadline  # the service has not read the new key yet
            time.sleep(0.2)
        assert created.status_code == 201, created.content
        again = call("tools.tools_create_tool", client=caller, body=body)
        assert (again.status_code, again.parsed.title) == (409, "Conflict")
        read = call("tools.tools_read_tool", "trace_route", client=caller)
        change = model("ToolsUpdateToolBody", description="shows each step of the way to a host")
        changed = call(
            "tools.tools_update_tool",
            "trace_route",
            client=caller,
            body=change,
            if_match=read.headers["etag"],
        )
        assert changed.status_code == 200
        stale = call(
            "tools.tools_update_tool",
            "trace_route",
            client=caller,
            body=change,
            if_match=read.headers["etag"],
        )
        assert stale.status_code == 412
        listed = call("tools.tools_list_tools", client=caller, limit=1).parsed.to_dict()
        assert [tool["name"] for tool in listed["tools"]] == ["ping"]
        rest = call("tools.tools_list_tools", client=caller, after=listed["next"]).parsed.to_dict()
        assert [tool["name"] for tool in rest["tools"]] == ["trace_route"]


def test_problems_are_parsed(service):
    with client(service, "trk_nobody") as stranger:
        refused = call(
            "selections.selections_select", client=stranger, body=model("SelectBody", message="a host")
        )
    assert (refused.status_code, refused.parsed.status, refused.parsed.title) == (
        401,
        401,
        "Not authenticated",
    )
    with client(service) as caller:
        denied = call(
            "tools.tools_create_tool",
            client=caller,
            body=model("ToolsCreateToolBody", name="x", description="x"),
        )
        assert denied.parsed.status == 403
        wrong = call(
            "selections.selections_select", client=caller, body=model("SelectBody", message="a host", k=-1)
        )
        assert (wrong.status_code, "-1" in wrong.parsed.detail) == (422, True)
