"""The hooks that a configuration names as `package:object`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import isclass, iscoroutinefunction
from typing import TYPE_CHECKING, Any, NoReturn

from toolroll.formats.visible_text import one_line
from toolroll.model.errors import InvalidDefinition

if TYPE_CHECKING:
    from toolroll.gateway.hooks import CallHook

_NEEDED = "must have the methods `async before(call)` and `async after(call, result)`"


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
        if not callable(found) and not _is_hook(found):
            fail(f"{reference!r} is no hook: it {_NEEDED}")
        return cls(found, fail)

    def make(self) -> CallHook:
        """The hook.

        Raises:
            InvalidDefinition: the callable fails, or makes something else.
        """
        try:
            hook: CallHook = self.found if _is_hook(self.found) else self.found()
        except InvalidDefinition:
            raise
        except Exception as error:
            self.fail(f"cannot be made: {_error_text(error)}")
        if not _is_hook(hook):
            self.fail(f"makes no hook but a {type(hook).__name__}: it {_NEEDED}")
        return hook


def _is_hook(value: object) -> bool:
    methods = (getattr(value, name, None) for name in ("before", "after"))
    return not isclass(value) and all(map(iscoroutinefunction, methods))


def _error_text(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", 300)
