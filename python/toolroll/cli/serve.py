"""`toolroll serve`: runs the service."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from toolroll.cli.commands import command as declare
from toolroll.cli.options import CATALOG, flag, option, path_option
from toolroll.cli.output import note, redacted


@declare(
    "serve",
    example="toolroll serve --catalog sqlite:///tools.db\n"
    "toolroll serve --config server.toml --workers 4\n"
    "toolroll serve --config server.toml --check\n"
    "toolroll serve --upstream https://api.openai.com/v1 --authentication none\n"
    "toolroll serve --demo",
)
@path_option("--config", "Settings, as TOML.")
@option("--catalog", "URL of the registry.", envvar=CATALOG, metavar="URL", unset="as configured")
@option(
    "--upstream",
    "URL of a provider: run a proxy before it, which sends on the tools that matter (docs/drop-in.md).",
    metavar="URL",
    unset="none: serve selections",
)
@option("--host", "Address to listen on.", metavar="HOST", unset="as configured, else 127.0.0.1")
@option("--port", "Port to listen on.", type=int, metavar="PORT", unset="as configured, else 8080")
@option("--workers", "Processes that share the port.", type=int, metavar="N", unset="as configured, else 1")
@option(
    "--grace",
    "Seconds that a stop may take: requests finish, outcomes are written.",
    type=float,
    metavar="SECONDS",
    unset="as configured, else 30",
)
@option(
    "--authentication",
    "Whether callers need a service key (registry keys); none: only programs on this machine can call.",
    choices=("keys", "none"),
    unset="as configured, else keys",
)
@flag("--check", "Say what is wrong with the settings, and serve nothing.")
@flag("--demo", "Serve a temporary registry with demonstration data, to this machine, without keys.")
def command(config: Path | None, grace: float | None, check: bool, demo: bool, **options: Any) -> int:
    """Serve selections from a registry over HTTP.

    Each setting has a variable, such as TOOLROLL_SERVER_PORT. Options precede variables, and these precede
    the file. docs/service.md lists the settings.
    """
    try:
        from toolroll.selection.environment_names import warn_of_service_names
        from toolroll.server.serving import problems_with, serve
        from toolroll.server.setting_sources import SettingSources
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "toolroll":
            raise
        raise click.ClickException(
            f"the service needs {error.name}: pip install 'toolroll[server]'"
        ) from error

    if demo:
        return _serve_demonstration({"grace_s": grace, **options})
    sources = SettingSources.read(config, grace_s=grace, **options)
    settings = sources.settings()
    warn_of_service_names(sources.set_names)
    if check:
        problems = [*problems_with(settings, sources)]
        for problem in problems:
            note(redacted(str(problem)))
        if not problems:
            over = redacted(settings.upstream or settings.catalog)
            print(f"the settings are right: {settings.host}:{settings.port}, {over}")
        return 1 if problems else 0
    serve(settings)
    return 0


def _serve_demonstration(options: dict[str, Any]) -> int:
    from toolroll.selection.environment_names import warn_of_service_names
    from toolroll.server.demonstration import DAYS, write_demonstration
    from toolroll.server.serving import check_address, serve
    from toolroll.server.setting_sources import SettingSources

    context = click.get_current_context()
    typed = [
        name
        for name in ("config", "catalog", "upstream", "authentication", "check")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if typed:
        raise click.UsageError(f"--demo cannot be combined with --{typed[0]}: it has its own registry")
    # SIGTERM must unwind too, so that the folder is deleted. uvicorn raises it again when it has stopped.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="toolroll-demo-", ignore_cleanup_errors=True) as folder:
        own = {"catalog": f"sqlite:///{folder}/tools.db", "upstream": "", "authentication": "none"}
        own |= {"messages": "kept", "outbox": f"{folder}/outbox"}
        sources = SettingSources.read(None, **{**options, **own})
        settings = sources.settings()
        warn_of_service_names(sources.set_names)
        check_address(settings)
        note(f"writing {DAYS} days of demonstration data…")
        write_demonstration(settings.catalog, embedder=settings.embedder)
        note(f"http://{settings.host}:{settings.port}/admin/ shows it; the data is deleted when this ends")
        serve(settings)
    return 0
