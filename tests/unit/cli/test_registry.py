"""What the registry's commands do before there is a registry: arguments, help, what is printed and how."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.table import each_row
from toolroll.cli import main, options
from toolroll.registry.store.database import Database

SECRET = "hunter2-s3cret"
TOOLKITS = str(Path(options.__file__).parents[1] / "demo" / "toolkits")


@pytest.fixture(autouse=True)
def no_default(monkeypatch):
    monkeypatch.delenv(options.CATALOG, raising=False)


@each_row(
    "url",
    [
        f"postgresql://me:{SECRET}@host/tools",
        f"postgresql://me:{SECRET}@1@host:5432/tools",
        f"postgresql://me:a/{SECRET}@host/tools",
        f"postgresql://:{SECRET}@host/tools",
        f"postgresql://me:'{SECRET}@host/tools",
        f"postgresql://host/tools?user=me&password={SECRET}&sslmode=require",
        f"mysql://me:{SECRET}@host/tools",
    ],
)
def test_a_password_is_never_printed(capsys, url):
    for arguments in (
        ("registry", "list", "--catalog", url.replace("postgresql:", "mysql:")),
        ("registry", "list", url),
        ("import", "/no/such/folder", "--to", url),
        ("registry", "list", f"--limit={url}"),
        ("select", "x", "--catalog", url.replace("postgresql:", "mysql:")),
    ):
        status = main(arguments)
        out, err = capsys.readouterr()
        assert status in (1, 2) and err
        assert SECRET not in out + err


@each_row(
    ("arguments", "what"),
    [
        (("registry",), "Usage: toolroll registry"),
        (("registry", "lst"), "lst"),
        (("registry", "show", "--catalog", "sqlite:///x.db"), "NAME"),
        (("registry", "update", "x"), "--set"),
        (("registry", "update", "x", "--set", "summary"), "must be FIELD=VALUE"),
        (("registry", "update", "x", "--set", "tags=a,b"), "tags: must be JSON"),
        (
            ("registry", "update", "x", "--set", "summary=a", "--set", "summary=b"),
            "--set summary: is given twice",
        ),
        (("registry", "rollback", "x"), "--to"),
        (("registry", "rollback", "x", "--to", "0"), "0 is not in the range x>=1"),
        (("registry", "diff", "x", "one", "2"), "'one' is not a valid integer"),
        (("registry", "sync", "folder"), "--plugin"),
        (("registry", "sync", "folder", "--plugin", "p", "--review", "never"), "never"),
        (("registry", "rules", "add", "r", "--deny", "--tool", "t"), "--when"),
        (("registry", "rules", "add", "r", "--tool", "t", "--when", "{}"), "--allow --deny"),
        (("registry", "rules", "add", "r", "--deny", "--when", "{}"), "--tool --toolkit"),
        (("registry", "rules", "add", "r", "--deny", "--allow", "--when", "{}"), "and not both"),
        (("registry", "rules", "add", "r", "--deny", "--tool", "t", "--when", "tier"), "must be JSON"),
        (("registry", "rules", "add", "r", "--deny", "--tool", "t", "--when", "[]"), "must be a JSON object"),
        (
            ("registry", "rules", "add", "r", "--deny", "--tool", "t", "--priority", "x"),
            "not a valid integer",
        ),
        (("registry", "pages", "add", "contacts*"), "TOOLKIT"),
        (("registry", "tiers", "free", "--clear"), "goes without names"),
        (("registry", "settings", "set", "key", "value"), "unexpected extra argument (value)"),
        (("import", "--to", "sqlite:///x.db"), "PATH|URL"),
        (("import", "folder", "--to", "sqlite:///x.db", "--review", "all"), "goes with --plugin"),
        (("embed", "--catalog", "sqlite:///x.db", "--embedder", "none"), "embeds nothing"),
    ],
)
def test_wrong_use_exits_with_2_and_does_nothing(capsys, tmp_path, monkeypatch, arguments, what):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(options.CATALOG, "sqlite:///tools.db")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and what in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(("registry", "list"), "--catalog"), (("import", "folder"), "--to"), (("embed",), "--catalog")],
)
def test_a_command_without_a_registry_says_how_to_name_one(capsys, arguments, option):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert f"Missing option '{option}'" in err and options.CATALOG in err


def test_what_names_no_registry_is_an_error_that_says_what_does(capsys):
    assert main(("registry", "list", "--catalog", "toolkits/")) == 1
    err = capsys.readouterr().err
    assert err.startswith("toolroll registry list: --catalog 'toolkits/': is not a registry")
    assert "sqlite:///FILE" in err and err.count("\n") == 1


def test_the_registry_may_be_named_by_the_environment(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv(options.CATALOG, f"sqlite:///{tmp_path}/absent.db")
    assert main(("registry", "list")) == 1
    err = capsys.readouterr().err
    assert "absent.db" in err and "toolroll import" in err
    assert main(("registry", "list", "--catalog", f"sqlite:///{tmp_path}/other.db")) == 1
    assert "other.db" in capsys.readouterr().err


def test_reading_makes_no_database(capsys, tmp_path):
    url = f"sqlite:///{tmp_path}/absent.db"
    for arguments in (
        ("registry", "list"),
        ("registry", "status"),
        ("registry", "upgrade"),
        ("registry", "why", "x"),
        ("registry", "tiers", "free"),
        ("embed", "--embedder", "hashing"),
        ("select", "x"),
    ):
        assert main((*arguments, "--catalog", url)) == 1
        out, err = capsys.readouterr()
        assert out == "" and "no registry is there" in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_help_loads_neither_databases_nor_arrays():
    program = (
        "import sys\n"
        "from toolroll.cli import main\n"
        "for arguments in sys.argv[1:]:\n"
        "    assert main(arguments.split()) == 0\n"
        "heavy = {'sqlalchemy', 'alembic', 'psycopg', 'pysqlite3', 'numpy', 'getpass'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    commands = ["", "registry", "registry rules add", "registry settings", "import", "embed", "select"]
    helps = [f"{command} --help" for command in commands]
    before = "import toolroll, sys; sys.exit('numpy' in sys.modules)"
    if subprocess.run([sys.executable, "-c", before]).returncode:
        program = program.replace("'numpy', ", "")  # `import toolroll` itself brings it
    subprocess.run([sys.executable, "-c", program, *helps], check=True, stdout=subprocess.DEVNULL)


@each_row(
    "words",
    [["registry", "list"], ["embed", "--embedder", "hashing"], ["select", "x"], ["import", TOOLKITS, "--to"]],
)
def test_without_the_extra_a_registry_says_how_to_get_it(words):
    program = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from toolroll.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    catalog = [] if "--to" in words else ["--catalog"]
    command = [sys.executable, "-c", program, *words, *catalog, "sqlite:///x.db"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert "pip install 'toolroll[store]'" in done.stderr and done.stderr.count("\n") == 1


@each_row(
    ("words", "extra"),
    [
        (["events", "export", "lake", "--partitioned", "--catalog", "sqlite:///x.db"], "parquet"),
        (["events", "parquet", "judge", "lake"], "offline"),
        (["events", "parquet", "judge", "lake", "--on", "ray"], "ray"),
        (["lab", "judge", "--events", "lake", "--on", "ray", "--catalog", "sqlite:///x.db"], "ray"),
        (["catalogs", "list", "--to", "lake"], "published"),
    ],
)
def test_a_missing_package_names_the_extra_that_the_command_needs(words, extra):
    program = (
        "import sys; sys.modules.update(fsspec=None, ray=None)\n"
        "from toolroll.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert f'pip install "toolroll[{extra}]"' in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="arguments are no bytes there")
def test_bytes_that_are_no_utf8_are_one_line(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    Database.open(url, create=True, migrate=True).close()
    for words in ([b"show", b"caf\xe9"], [b"list", b"--org", b"\xff"], [b"list", b"--catalog", b"\xff"]):
        command = [
            sys.executable,
            "-m",
            "toolroll",
            "registry",
            words[0],
            b"--catalog",
            url.encode(),
            *words[1:],
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 1


class Interrupting:
    """Standard input of somebody who types Ctrl-C."""

    buffer = property(lambda self: self)

    def isatty(self) -> bool:
        return False

    def read(self, _size: int = -1) -> bytes:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.signal(signal.SIGINT, before)
        raise AssertionError("a signal that nobody heard")


@pytest.mark.parametrize(
    "words", [("select", "-"), ("registry", "settings", "set", "KEY", "--catalog", "sqlite:///tools.db")]
)
def test_an_interrupted_command_is_one_line_and_status_130(capsys, monkeypatch, words):
    monkeypatch.setattr("sys.stdin", Interrupting())
    assert main(words) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "toolroll: interrupted; unfinished changes were rolled back\n"


def test_a_registry_url_whose_password_is_not_encoded_is_said_without_any_part_of_it(capsys):
    assert main(["registry", "status", "--catalog", "postgresql://me:hun@ter2@host/tools"]) == 1
    out, err = capsys.readouterr()
    assert "percent-encode" in err
    assert not any(part in out + err for part in ("hun", "ter2"))
