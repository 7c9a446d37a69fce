"""References in a configuration: `${env:TOKEN}`, `${keyring:service/user}`, `${workspaceFolder}`.

With references, the file needs no secrets. They are resolved when a server starts.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from toolroll.gateway.server_spec import ServerSpec
from toolroll.model.errors import InvalidInput

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def resolved(text: str, environ: Mapping[str, str], folder: Path) -> str:
    """Replaces references in the text by their values.

    folder: of the configuration file; `${workspaceFolder}` stands for it.

    Raises:
        InvalidInput: a reference cannot be resolved; the message has no secret.
    """
    return _REFERENCE.sub(lambda match: _value(match[1], environ, folder), text)


def input_reference(text: str) -> str:
    """Returns the id of VS Code's `${input:ID}` in the text; "" if there is none."""
    match = next((one for one in _REFERENCE.finditer(text) if one[1].startswith("input:")), None)
    return "" if match is None else match[1].removeprefix("input:")


def _value(reference: str, environ: Mapping[str, str], folder: Path) -> str:
    kind, separator, name = reference.partition(":")
    if kind == "env" and separator:
        return _variable(name, None, environ)
    if kind == "keyring" and separator:
        return _secret(name)
    if kind == "input" and separator:
        raise InvalidInput(_INPUT_ADVICE.format(name))
    if reference in ("workspaceFolder", "workspaceRoot"):
        return str(folder)
    if reference == "workspaceFolderBasename":
        return folder.name
    if reference == "userHome":
        return str(Path.home())
    if reference in ("pathSeparator", "/"):
        return os.sep
    plain, has_default, default = reference.partition(":-")
    if _VARIABLE.match(plain):  # Claude Code's form
        return _variable(plain, default if has_default else None, environ)
    raise InvalidInput(
        f"${{{reference}}} is no known reference, must be ${{env:NAME}}, ${{keyring:SERVICE/USER}}, "
        "${workspaceFolder} or ${userHome}"
    )


_INPUT_ADVICE = (
    "${{input:{0}}} is asked for by VS Code alone; write ${{env:NAME}} and set that variable, or "
    "${{keyring:SERVICE/USER}} and store the secret with `keyring set SERVICE USER`"
)


def input_advice(name: str) -> str:
    """Says how to replace `${input:NAME}`."""
    return _INPUT_ADVICE.format(name)


def _variable(name: str, default: str | None, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if value is None or (value == "" and default is not None):
        if default is None:
            raise InvalidInput(f"the environment variable {name} is not set")
        return default
    return value


def _secret(name: str) -> str:
    service, separator, user = name.partition("/")
    if not separator or not service or not user:
        raise InvalidInput(f"${{keyring:{name}}} must be ${{keyring:SERVICE/USER}}")
    import keyring  # imported late: its backends take a while to load
    from keyring.errors import KeyringError

    try:
        value: str | None = keyring.get_password(service, user)
    except KeyringError as error:
        raise InvalidInput(f"${{keyring:{name}}}: the keyring cannot be read: {error}") from error
    if value is None:
        raise InvalidInput(
            f"${{keyring:{name}}}: the keyring has no such secret; store it with "
            f"`keyring set {service} {user}`"
        )
    return value


def address_of(spec: ServerSpec, environ: Mapping[str, str], folder: Path) -> tuple[str, dict[str, str], str]:
    """Returns URL and headers of a remote server, and its OpenAPI document.

    Raises:
        InvalidInput: a reference cannot be resolved.
    """
    text = partial(_resolved, environ, folder)
    headers = {name: text(f"headers.{name}", value) for name, value in spec.headers.items()}
    return text("url", spec.url), headers, text("openapi", spec.openapi)


def _resolved(environ: Mapping[str, str], folder: Path, key: str, value: str) -> str:
    try:
        return resolved(value, environ, folder)
    except InvalidInput as error:
        raise InvalidInput(f"{key}: {error}") from error


def process_of(
    spec: ServerSpec, environ: Mapping[str, str], folder: Path
) -> tuple[str, list[str], dict[str, str], str | None]:
    """Returns command, arguments, variables and working folder of a server's process.

    Raises:
        InvalidInput: a reference cannot be resolved, or there is no such program.
    """
    text = partial(_resolved, environ, folder)
    cwd = str(folder / text("cwd", spec.cwd)) if spec.cwd else None
    if cwd is not None and not os.path.isdir(cwd):
        raise InvalidInput(f"cwd: its working folder {cwd} does not exist")
    env: dict[str, str] = {}
    if spec.env_file:
        env |= _variables(folder / text("envFile", spec.env_file))
    env |= {name: text(f"env.{name}", value) for name, value in spec.env.items()}
    prefix = [text("command_prefix", part) for part in spec.command_prefix]
    own = [text("command", spec.command), *[text("args", part) for part in spec.args]]
    command, *args = [*prefix, *own]
    command = os.path.expanduser(command)
    looked_in = env.get("PATH") or environ.get("PATH")
    beside = os.path.join(cwd or "", command) if os.path.dirname(command) else command
    if shutil.which(beside, path=looked_in) is None:
        key = "command_prefix" if prefix else "command"
        if os.path.isfile(beside):
            raise InvalidInput(f"{key}: its program {command!r} cannot be executed: it is a plain file")
        raise InvalidInput(
            f"{key}: its program {command!r} is not there: install it, or write its whole path"
        )
    return command, args, env, cwd


def _variables(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"its envFile {path} cannot be read: {error}") from error
    pairs = (line.removeprefix("export ").partition("=") for line in map(str.strip, lines))
    return {name.strip(): value.strip().strip("'\"") for name, eq, value in pairs if eq and name[0] != "#"}
