"""The hooks that a configuration names as `package:object`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import isclass, iscoroutinefunction
from typing import TYPE_CHECKING, Any, NoReturn

from toolroll.formats.visible_text import one_line
from toolroll.model.errors import InvalidDefinition, InvalidInput, quoted

if TYPE_CHECKING:
    from toolroll.gateway.hooks import Hook

_SIGNATURES = {"before": "async def before(self, call)", "after": "async def after(self, call, result)"}
_NEEDED = f"must have a method `{'` or `'.join(_SIGNATURES.values())}`"
_BASE = "toolroll.gateway.hooks", "CallHook"  # by name: its module imports the package `mcp`


@dataclass(frozen=True, slots=True)
class ConfiguredHook:
    """A hook that a configuration names.

    Attributes:
        found: the object: a hook, or a callable without parameters that makes one, such as a class.
        fail: raises InvalidDefinition with file, line and key of the name.
    """

    found: Any
    fail: Callable[[str], NoReturn]

    @classmethod
    def of(cls, reference: str, fail: Callable[[str], NoReturn]) -> ConfiguredHook:
        """Imports the object, without calling it: reading a configuration must start nothing.

        Raises:
            InvalidDefinition: from `fail`, if the module or the object is missing, or cannot be a hook.
        """
        module, _, name = reference.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
            fail(f"is {reference!r:.100}, must be package:object, such as acme_hooks:OfficeHours")
        try:
            found: Any = import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                fail(f"module {module!r} cannot be imported: {_error_text(error)}")
            fail(f"no module is named {error.name!r}; install its package for {sys.executable}")
        except Exception as error:  # whatever a module does when it is imported
            fail(f"module {module!r} cannot be imported: {_error_text(error)}")
        for part in name.split("."):
            if not hasattr(found, part):
                fail(f"module {module!r} has no {name!r}")
            found = getattr(found, part)
        if not callable(found) and (problem := _problem(found)):
            fail(f"{reference!r} is no hook: {problem}")
        return cls(found, fail)

    def make(self) -> Hook:
        """The hook.

        Raises:
            InvalidDefinition: the callable fails, or makes something else.
        """
        try:
            hook: Hook = self.found() if callable(self.found) and _problem(self.found) else self.found
        except InvalidDefinition:
            raise
        except Exception as error:
            self.fail(f"cannot be made: {_error_text(error)}")
        if problem := _problem(hook):
            self.fail(f"makes no hook but a {type(hook).__name__}: {problem}")
        return hook


def checked_hook(hook: Hook) -> Hook:
    """The hook.

    Raises:
        InvalidInput: it is none.
    """
    if problem := _problem(hook):
        raise InvalidInput(f"hooks: {quoted(hook)} is no hook: {problem}")
    return hook


def _problem(value: object) -> str:
    """Why the value is no hook; "" if it is one."""
    if isclass(value):
        return "it is a class, must be an instance of it"
    methods = {name: found for name in _SIGNATURES if (found := getattr(value, name, None)) is not None}
    for name, method in methods.items():
        if not iscoroutinefunction(method):
            return f"its method {name} must be `{_SIGNATURES[name]}`"
    return f"it {_NEEDED}" if all(map(_is_inherited, methods.values())) else ""


def _is_inherited(method: object) -> bool:
    """Whether it is a method of `CallHook` itself, which does nothing."""
    module, name = getattr(method, "__module__", ""), getattr(method, "__qualname__", "")
    return (module, name.rpartition(".")[0]) == _BASE


def _error_text(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", 300)
