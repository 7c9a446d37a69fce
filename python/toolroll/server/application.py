"""The ASGI application of the service, and the part of it that hosts mount in their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from toolroll import Registry, Toolroll, __version__
from toolroll.server.health import health_router
from toolroll.server.selections import selection_router
from toolroll.server.settings import ServerSettings, read_settings

CLOSING_SHARE = 0.3  # of the grace period: for writing outcomes, once all requests have finished


def create_application(settings: ServerSettings) -> FastAPI:
    """The service over the registry that the settings name. Its last step closes the registry.

    Raises:
        NotFound, StoreUnavailable, InvalidInput: as `Toolroll.open`.
    """
    roll = Toolroll.open(
        settings.catalog,
        embedder=settings.embedder,
        profile=settings.profile,
        messages=settings.messages,
    )
    try:
        registry = Registry.open(settings.catalog, create=False)
    except BaseException:
        roll.close()
        raise

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            try:
                await roll.aclose(settings.grace_s * CLOSING_SHARE)
            finally:
                registry.close()

    application = FastAPI(title="toolroll", version=__version__, lifespan=lifespan)
    application.include_router(health_router(roll))
    application.include_router(selection_router(roll))
    return application


def create_from_environment() -> FastAPI:
    """The service with the settings in the environment, for an ASGI server that is given an import path."""
    return create_application(read_settings())
