"""`toolroll mcp serve`: runs the gateway."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import command
from toolroll.cli.options import CATALOG, flag, option, path_option
from toolroll.cli.output import note, one_line
from toolroll.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from toolroll.gateway.configuration import Configuration

_MODES = ("auto", "search", "dynamic", "all")


def _on_one_line(record: logging.LogRecord) -> bool:
    """Puts text of servers and clients on one line of the log."""
    record.msg, record.args = one_line(record.getMessage()), None
    return True


def config_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declares `--config` and `--manifests`."""
    config = path_option(
        "--config",
        "Configuration file of an MCP client, or one like it.",
        "the one that `toolroll mcp import` writes",
    )
    manifests = path_option(
        "--manifests", "Folder whose sub-folders hold servers with a manifest.json.", is_folder=True
    )
    return config(manifests(function))


def configuration_of(config: Path | None, manifests: Path | None) -> tuple[Configuration, Path]:
    """The configuration of the options, and the folder of its state.

    Raises:
        NotFound: there is none.
        InvalidDefinition: it is wrong; with file, line and key.
    """
    from toolroll.gateway.configuration import Configuration, read_configuration, with_servers
    from toolroll.gateway.manifests import read_manifests
    from toolroll.gateway.options import GatewayOptions
    from toolroll.gateway.places import default_configuration, state_folder

    path = config or (default_configuration() if manifests is None else None)
    if path is None:
        assert manifests is not None
        found = Configuration({}, GatewayOptions(), manifests.resolve(), {})
    elif config is None and not path.is_file():
        raise NotFound(
            f"no configuration: name one with --config, or run `toolroll mcp import CLIENT` ({path})"
        )
    else:
        found = read_configuration(path, os.environ)
    if manifests is not None:
        found = with_servers(found, read_manifests(manifests), os.environ)
    return found, state_folder(path or manifests or Path())


@command(
    "serve", example="toolroll mcp --config mcp.json\ntoolroll mcp --config mcp.json --http 127.0.0.1:8000"
)
@config_option
@option("--http", "Serve streamable HTTP at /mcp and /mcp/PAGE.", metavar="HOST:PORT", unset="serve stdio")
@option(
    "--mode", "What a client is shown: see docs/gateway.md.", choices=_MODES, unset="as configured, else auto"
)
@option("--catalog", "URL of the registry.", envvar=CATALOG, metavar="URL", unset="one in your state folder")
@option("--page", "The page that the client is on.", metavar="PAGE", unset="as configured")
@flag("--check", "Say what is wrong with the configuration and start nothing. Exit status 1 if anything is.")
def serve(
    config: Path | None,
    manifests: Path | None,
    http: str | None,
    mode: str | None,
    catalog: str | None,
    page: str | None,
    check: bool,
) -> int:
    """Run the gateway; `toolroll mcp` alone does it, too.

    Over stdio it serves the client that starts it, and ends with it. It retries servers that cannot be
    started; their tools are missing meanwhile.
    """
    from dataclasses import replace

    import anyio

    from toolroll.gateway.options import with_changes
    from toolroll.gateway.serving import check_loopback, serve_http, serve_stdio

    configuration, state = configuration_of(config, manifests)
    if check:
        return _check(configuration)
    caller = configuration.options.caller.model_dump() | ({"page": page} if page else {})
    options = with_changes(configuration.options, mode=mode, catalog=catalog, caller=caller)
    configuration = replace(configuration, options=options)
    logging.basicConfig(format="toolroll: %(message)s", level=logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_on_one_line)
    for name in ("mcp", "httpx", "httpx2"):  # a babbling server would fill the client's log
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if http is None:
        with _end_at_sigterm():
            anyio.run(serve_stdio, configuration, state, backend_options=_loop())
        return 0
    host, port = _address(http)
    if configuration.options.identity is None:
        check_loopback(host)
    click.echo(f"http://{host}:{port}/mcp", err=True)
    with _end_at_sigterm():
        anyio.run(serve_http, configuration, state, host, port, backend_options=_loop())
    return 0


@contextmanager
def _end_at_sigterm() -> Iterator[None]:
    """Lets SIGTERM end the block as an interrupt does: servers stop, and outcomes are written."""
    is_told = False

    def end(*_: object) -> None:
        nonlocal is_told
        is_told = True
        signal.raise_signal(signal.SIGINT)

    before, interrupts = signal.signal(signal.SIGTERM, end), signal.getsignal(signal.SIGINT)
    if interrupts is signal.SIG_IGN:  # as in the background of a script: `end` would do nothing
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        if not is_told:
            raise
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupts)


def _loop() -> dict[str, bool]:
    """Options of `anyio.run`. With uvloop, a call costs a quarter less."""
    return {"use_uvloop": find_spec("uvloop") is not None}


def _check(configuration: Configuration) -> int:
    from toolroll.gateway.status import check

    found = list(check(configuration, os.environ))
    for problem in found:
        note(problem)
    if not found:
        print(f"{count_of_servers(len(configuration.servers))}: nothing is wrong with the configuration")
    return 1 if found else 0


def count_of_servers(count: int) -> str:
    """The number of servers as text."""
    return "1 server" if count == 1 else f"{count} servers"


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65_536:
        raise InvalidInput(f"--http {text!r}: must be HOST:PORT, such as 127.0.0.1:8000")
    return host or "127.0.0.1", int(port)


COMMANDS = (serve,)
