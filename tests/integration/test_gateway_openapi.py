"""HTTP services with an OpenAPI document behind the gateway: a FastAPI application on this machine."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")
pytest.importorskip("fastapi")

import anyio
from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel

from tests.integration.gateways import gateway_over, run, serving, until
from tests.ports import free_port
from toolroll.gateway.openapi import server

pytestmark = pytest.mark.slow


class Pet(BaseModel):
    name: str
    children: list[Pet] = []


def pet_shop(seen):
    """A service that notes the requests that it gets."""
    app = FastAPI()
    pets = {}

    @app.middleware("http")
    async def note(request: Request, following):
        seen.append((request.method, request.url.path, dict(request.headers)))
        return await following(request)

    @app.get("/pets/{pet_id}", operation_id="get_pet")
    def get_pet(pet_id: int, verbose: bool = False):
        """Reads a pet."""
        if pet_id not in pets:
            return JSONResponse({"detail": "no such pet"}, 404)
        return {**pets[pet_id], "verbose": verbose}

    @app.put("/pets/{pet_id}", operation_id="put_pet")
    def put_pet(pet_id: int, pet: Pet, reason: str = Header("", alias="X-Reason")):
        pets[pet_id] = pet.model_dump()
        return {"reason": reason}

    @app.delete("/pets/{pet_id}", operation_id="delete_pet", status_code=204)
    def delete_pet(pet_id: int):
        del pets[pet_id]

    @app.get("/away", operation_id="away")
    def away():
        return RedirectResponse("http://127.0.0.1:9/secret")

    @app.get("/long", operation_id="long")
    def long(size: int):
        return Response("x" * size, media_type="text/plain")

    @app.get("/picture", operation_id="picture")
    def picture():
        return Response(b"\x89PNG", media_type="image/png")

    @app.get("/slow", operation_id="slow")
    async def slow():
        await anyio.sleep(30)

    return app


def test_operations_of_a_service_are_listed_found_and_called(tmp_path, monkeypatch):
    monkeypatch.setenv("PET_KEY", "s3cret")
    monkeypatch.setattr(server, "LARGEST_ANSWER", 100_000)

    async def go():
        seen, port = [], free_port()
        async with serving(pet_shop(seen), port) as url:
            shop = {
                "openapi": f"{url}/openapi.json",
                "url": url,
                "headers": {"X-Key": "${env:PET_KEY}", "X-Reason": "configured"},
            }
            options = {"mode": "all", "result_limit": 0, "servers": {"pets": {"timeout_s": 1}}}
            async with gateway_over(tmp_path, {"pets": shop}, **options) as (gateway, client):
                assert "pets_get_pet" in await client.names()
                found, _ = await client.call("search_tools", {"queries": ["read a pet"], "limit": 1})
                assert "## pets_get_pet\n[pets] " in found and "Reads a pet." in found
                pet = {"name": "Rex", "children": [{"name": "Ada"}]}
                told, is_error = await client.call(
                    "pets_put_pet", {"pet_id": 1, "body": pet, "X-Reason": "own"}
                )
                assert (json.loads(told), is_error) == ({"reason": "configured"}, False)
                told, _ = await client.call("pets_get_pet", {"pet_id": 1, "verbose": True})
                assert json.loads(told) == {
                    "name": "Rex", "children": [{"name": "Ada", "children": []}], "verbose": True,
                }  # fmt: skip
                assert await client.call("pets_delete_pet", {"pet_id": 1}) == ("204 No Content", False)
                assert await client.call("pets_get_pet", {"pet_id": 1}) == (
                    '404 Not Found: {"detail":"no such pet"}',
                    True,
                )
                before = len(seen)
                told, is_error = await client.call("pets_get_pet", {"pet_id": "../openapi.json"})
                assert is_error and "leads to another path" in told and len(seen) == before
                assert await client.call("pets_get_pet", {}) == ("argument 'pet_id' is missing", True)
                told, is_error = await client.call("pets_away")
                assert is_error and "which is not followed" in told
                assert (await client.call("pets_long", {"size": 100_000}))[0] == "x" * 100_000
                told, is_error = await client.call("pets_long", {"size": 100_001})
                assert is_error and "more than 100,000 bytes" in told
                picture = await client.client.request("tools/call", {"name": "pets_picture", "arguments": {}})
                assert picture["content"] == [{"type": "image", "mimeType": "image/png", "data": "iVBORw=="}]
                told, is_error = await client.call("pets_slow")
                assert is_error and "did not answer within 1 s" in told
                assert {headers["x-key"] for _, _, headers in seen} == {"s3cret"}
                hints = {tool.name: tool.hints for tool in gateway.catalog.roll.catalog.tools}
                assert hints["pets_get_pet"]["readOnlyHint"] is True
                assert hints["pets_delete_pet"]["destructiveHint"] is True

    run(go)


def test_a_policy_against_destructive_tools_leaves_the_reading_operations(tmp_path):
    paths = {"/a": {"get": {}, "delete": {}, "post": {}}}
    (tmp_path / "api.json").write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))

    async def go():
        service = {"openapi": "api.json", "url": "http://127.0.0.1:9"}
        async with gateway_over(tmp_path, {"a": service}, mode="all", destructive="deny") as (_, client):
            assert await client.names() == ["a_get_a", "read_result"]

    run(go)


def test_a_service_that_is_away_costs_its_calls_and_no_tool_is_blamed(tmp_path):
    (tmp_path / "api.json").write_text(json.dumps({"openapi": "3.1.0", "paths": {"/a": {"get": {}}}}))

    async def go():
        service = {"openapi": "api.json", "url": f"http://127.0.0.1:{free_port()}"}
        async with gateway_over(tmp_path, {"a": service}, mode="all") as (gateway, client):
            await client.call("search_tools", {"queries": ["a"]})
            with pytest.raises(Exception, match="the service fails"):
                await client.call("a_get_a")
            await until(lambda: bool(gateway.catalog.roll.counters().outcomes))
            assert "failed" not in gateway.catalog.roll.counters().outcomes

    run(go)


def test_documents_that_cannot_be_used_cost_their_own_tools(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "LARGEST_DOCUMENT", 100_000)
    large = {"openapi": "3.1.0", "paths": {}, "x": "x" * 100_000}
    (tmp_path / "large.json").write_text(json.dumps(large))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "old.json").write_text('{"swagger": "2.0"}')
    part = {"openapi": "3.0.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "b.json#/c"}]}, "put": {}}}}
    (tmp_path / "part.json").write_text(json.dumps(part))
    url = "http://127.0.0.1:9"
    servers = {
        name: {"openapi": f"{name}.json", "url": url} for name in ("large", "broken", "old", "part", "none")
    }
    servers["remote"] = {"openapi": f"{url}/openapi.json", "url": url}
    servers["query"] = {"openapi": "part.json", "url": f"{url}?key=1"}

    async def go():
        async with gateway_over(tmp_path, servers, mode="all") as (gateway, client):
            assert await client.names() == ["part_put_a", "read_result"]
            reasons = {name: one.main.reason for name, one in gateway.upstreams.items()}
            assert "more than 100,000 bytes" in reasons["large"]
            assert "is not JSON" in reasons["broken"] and "Swagger 2" in reasons["old"]
            assert "cannot be read" in reasons["none"] and "its OpenAPI document" in reasons["remote"]
            assert "must be http:// or https://" in reasons["query"]
            told = gateway.upstreams["part"].log.file.text()
            assert "GET /a: left out: $ref 'b.json#/c' leads out of the document" in told

    run(go)


def test_a_changed_document_is_read_again_and_secrets_stay_at_the_service(tmp_path):
    async def go():
        seen, documents = [], FastAPI(openapi_url=None)
        paths = {"/a": {"get": {}}}

        @documents.get("/api.json")
        def api(request: Request):
            seen.append(request.headers.get("authorization"))
            return {"openapi": "3.1.0", "paths": paths}

        async with serving(documents, free_port()) as url:
            service = {
                "openapi": f"{url}/api.json",
                "url": f"http://127.0.0.1:{free_port()}",
                "headers": {"Authorization": "Bearer s3cret"},
            }
            options = {"mode": "all", "review": "auto"}
            async with gateway_over(tmp_path, {"a": service}, **options) as (gateway, client):
                assert await client.names() == ["a_get_a", "read_result"]
                paths["/b"] = {"get": {}}
                gateway.upstreams["a"].compare()
                await client.noted("notifications/tools/list_changed")
                assert await client.names() == ["a_get_a", "a_get_b", "read_result"]
        assert set(seen) == {None}

    run(go)
