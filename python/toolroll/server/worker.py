"""The application that a worker process runs."""

from __future__ import annotations

from starlette.types import ASGIApp

from toolroll.server.application import create_application
from toolroll.server.drop_in.application import create_drop_in
from toolroll.server.logs import configure
from toolroll.server.parent import end_with_parent
from toolroll.server.setting_sources import read_settings


def create_from_environment() -> ASGIApp:
    """The service or the drop-in, with the settings in the environment."""
    settings = read_settings()
    configure(settings.log)
    end_with_parent()
    return create_drop_in(settings) if settings.upstream else create_application(settings)
