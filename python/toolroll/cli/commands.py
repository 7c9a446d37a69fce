"""Kinds of commands: their help has examples, and lazy groups import a command when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

PATH = "toolroll.command_path"  # in `Context.meta`: the command that runs, as errors name it
WRONG_USE = 2


class Command(click.Command):
    """A command with examples.

    Attributes:
        example: command lines that work, one a line.
    """

    def __init__(self, *args: Any, example: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.example = example

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Notes the command's path, then parses."""
        ctx.meta[PATH] = ctx.command_path
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples."""
        lines = self.example.splitlines()
        if lines:
            with formatter.section("Examples" if len(lines) > 1 else "Example"):
                for line in lines:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Group(Command, click.Group):
    """A command with others below it. Without a further name it prints its help and exits with status 2."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Needs the name of a command."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(WRONG_USE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command, or says which name is like the one that was typed."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and (close := get_close_matches(name, known)) and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}. Did you mean {' or '.join(close)}?", ctx)
        return super().resolve_command(ctx, args)


class DefaultGroup(Group):
    """A group with a default command: `registry rules` runs `registry rules list`."""

    default = "list"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts the default command in front of options."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


class LazyGroup(Group):
    """A group that imports a command when it is needed.

    Attributes:
        modules: by name of the command, its module, and `:attribute` if that is not `command`.
        sections: headings of the help with the names below them; other names are not listed.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, str],
        sections: Mapping[str, Sequence[str]] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.modules = modules
        self.sections = {"Commands": tuple(modules)} if sections is None else sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of their declaration."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command."""
        if cmd_name not in self.modules:
            return None
        module, _, attribute = self.modules[cmd_name].partition(":")
        found = getattr(import_module(module), attribute or "command")
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes a line a command, below the headings."""
        width = max(map(len, self.modules))
        for heading, names in self.sections.items():
            found = ((name, self.get_command(ctx, name)) for name in names)
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (f"{name:{width}}", each.get_short_help_str(formatter.width))
                        for name, each in found
                        if each is not None
                    ]
                )


def command(name: str, *, example: str, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Declares a command, as a decorator of the function that runs it."""
    return click.command(name, cls=Command, example=example, **attributes)
