"""References in a configuration: `${env:TOKEN}`, `${keyring:service/user}`, `${workspaceFolder}`.

With references, no secret has to stand in the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

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
    """Says what to write in place of `${input:NAME}`."""
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
    import keyring  # only where somebody uses it: its backends take a while to load
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
