"""The command line: parse, call, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from toolroll import __version__
from toolroll.cli.commands import PATH, LazyGroup
from toolroll.cli.output import redacted, remark
from toolroll.model.errors import ToolrollError

FAILED, INTERRUPTED = 1, 130  # the latter as shells report a program that Ctrl-C ended
_VARIABLES = ("TOOLROLL_CATALOG", "TOOLROLL_CACHE", "TOOLROLL_PROFILE", "TOOLROLL_EMBEDDER")
_STORE_PACKAGES = ("sqlalchemy", "alembic")

root = click.version_option(__version__, prog_name="toolroll", message="%(prog)s %(version)s")(
    LazyGroup(
        "toolroll",
        help="Pick the few tools that a message needs, out of thousands.\n\n"
        "Every command takes --help. Variables named TOOLROLL_... set options and parameters. For completion "
        'in bash: eval "$(_TOOLROLL_COMPLETE=bash_source toolroll)"; zsh and fish likewise.',
        example='toolroll select "Should I bring an umbrella?" --explain\n'
        "toolroll eval my-tools/ --embedder static,none\n"
        "toolroll build toolkits/ --to tools.catalog\n"
        "toolroll import toolkits/ --to sqlite:///tools.db\n"
        "toolroll registry list --catalog sqlite:///tools.db\n"
        "toolroll embed --catalog sqlite:///tools.db --embedder minilm\n"
        "toolroll mcp --config mcp.json\n"
        "toolroll serve --catalog sqlite:///tools.db",
        modules={
            "select": "toolroll.cli.select",
            "eval": "toolroll.cli.evaluate",
            "build": "toolroll.cli.build",
            "catalogs": "toolroll.cli.catalogs",
            "import": "toolroll.cli.import_tools",
            "registry": "toolroll.cli.registry",
            "embed": "toolroll.cli.embed",
            "mcp": "toolroll.cli.mcp",
            "serve": "toolroll.cli.serve",
            "doctor": "toolroll.cli.doctor",
            "examples": "toolroll.cli.examples",
            "events": "toolroll.cli.events",
            "lab": "toolroll.cli.lab",
            "simulate": "toolroll.cli.lab.simulate",
            "bench": "toolroll.cli.evaluate:bench",
        },
        sections={
            "Commands": ("select", "eval", "import", "registry", "embed", "mcp"),
            "More": ("serve", "doctor", "build", "catalogs", "examples", "events", "lab"),
        },
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            "show_default": True,
        },
    )
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns its exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    if "_TOOLROLL_COMPLETE" in os.environ:
        root.main(prog_name="toolroll")  # a shell asks for completions: click answers and exits
    meta: dict[str, str] = {}
    try:
        with root.make_context("toolroll", list(sys.argv[1:] if arguments is None else arguments)) as context:
            meta = context.meta
            _warn_of_unknown_variables()
            status = root.invoke(context)
        sys.stdout.flush()
        return int(status or 0)
    except click.exceptions.Exit as stop:  # --help and --version end so
        return stop.exit_code
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        if where is not None:
            print(where.get_usage(), file=sys.stderr)
        text = error.format_message()
        variable = getattr(getattr(error, "param", None), "envvar", None)
        if isinstance(error, click.MissingParameter) and variable and variable not in text:  # click 8.1
            text += f" (or the environment variable {variable})"
        return _fail(where.command_path if where else "toolroll", text, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _fail("toolroll", "interrupted; unfinished changes were rolled back", INTERRUPTED)
    except ToolrollError as error:
        statuses = [
            _fail(meta.get(PATH, "toolroll"), str(each)) for each in getattr(error, "problems", (error,))
        ]
        return statuses[0]
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _STORE_PACKAGES:
            raise
        extra = f"a registry needs {error.name}: pip install 'toolroll[store]', or 'toolroll[postgres]'"
        return _fail(meta.get(PATH, "toolroll"), extra)
    except BrokenPipeError:  # the reader of our output has gone, as in `toolroll … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the exit still flushes
        return FAILED


def _warn_of_unknown_variables() -> None:
    """Warns of misspelt variables. Imports all names only if a variable is not among the few here."""
    if any(name.startswith("TOOLROLL_") and name not in _VARIABLES for name in os.environ):
        from toolroll.selection.environment_names import warn_of_unknown

        warn_of_unknown()


def _fail(where: str, text: str, status: int = FAILED) -> int:
    """Prints an error on one line, without the password of a URL and without control characters."""
    first, *rest = text.splitlines() or [""]
    text = " ".join([first, "; ".join(line.strip() for line in rest)]).rstrip()
    text = text.replace(",; ", ", ")  # of a list of click's, whose lines end so
    print(f"{where}: {remark(redacted(text))}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
