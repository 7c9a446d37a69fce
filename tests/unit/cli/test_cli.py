"""The command line, as typed."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from tests.table import each_row
from tests.unit.lab.worlds import write
from toolroll import Context
from toolroll.cli import main


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


def test_an_umbrella_finds_the_forecast_although_no_keyword_says_so(capsys):
    status, out, _ = run(capsys, "select", "Should I bring an umbrella?", "--json")
    picked = json.loads(out)
    names = [tool["name"] for tool in picked["tools"]]
    reasons = {tool["name"]: tool["reasons"] for tool in picked["tools"]}
    assert status == 0
    assert "get_forecast" in names
    assert not any("keyword" in reason for reason in reasons["get_forecast"])


def test_visible_prints_the_active_toolkits_and_tools_without_a_message(capsys):
    found = json.loads(run(capsys, "select", "--visible", "--json", "--setting", "sonarr_url")[1])
    everything = json.loads(run(capsys, "select", "--visible", "--json")[1])
    assert "torrents" in everything["toolkits"] and "torrents" not in found["toolkits"]
    assert len(found["tools"]) < len(everything["tools"]) == 214
    _, out, err = run(capsys, "select", "--visible")
    assert len(out.splitlines()) == 214 and "214 of 214 tools" in err
    assert run(capsys, "select", "--visible", "hello")[0] == 2
    assert run(capsys, "select")[0] == 2


def test_required_tools_may_be_a_json_list_and_absent_ones_are_told(capsys):
    listed = ("--require", '["get_forecast", "ask_user"]')
    repeated = ("--require", "get_forecast", "--require", "ask_user")
    one, other = run(capsys, "select", "x", *listed), run(capsys, "select", "x", *repeated)
    assert one[:2] == other[:2] == (0, "get_forecast\nask_user\n")
    _, out, err = run(capsys, "select", "x", "--require", '["get_forcast"]', "--exclude", '["ask_usr"]')
    assert out == ""
    assert err.splitlines()[:2] == [
        "required 'get_forcast': this caller has no such tool; did you mean 'get_forecast'?",
        "exclude 'ask_usr': this caller has no such tool; did you mean 'ask_user'?",
    ]
    for wrong in ('["a"', "[3]"):
        status, _, err = run(capsys, "select", "x", "--require", wrong)
        assert status == 2 and "toolroll select: --require: " in err


def test_the_sentences_about_absent_tools_are_few(demo):
    said = demo.unknown_values(Context(exclude=tuple(f"none_{at}" for at in range(100_000))))
    assert len(said) < 20 and said[-1] == "exclude: this caller has no tools of 99,990 more names"


def test_visible_tools_of_no_toolkit_and_unknown_names_are_told(capsys, tmp_path):
    file = tmp_path / "tools.json"
    file.write_text('[{"name": "one", "parameters": {}}]')
    assert run(capsys, "select", "--visible", "--catalog", str(file), "--exclude", "two") == (
        0,
        "one\n",
        "exclude 'two': this caller has no such tool\n1 of 1 tools, of no toolkit\n",
    )
    assert run(capsys, "select", "--visible", "-k", "3")[0] == 2


@each_row(
    "words",
    [
        ["select", "x", "-k", "z" * 100_000],
        ["select", "x", "--catalog", "z" * 100_000],
        ["import", "z" * 100_000, "--to", "sqlite:///none.db"],
        ["registry", "sync", "z" * 100_000, "--catalog", "sqlite:///none.db", "--plugin", "p"],
        ["events", "export", "a\0b", "--catalog", "sqlite:///none.db"],
    ],
)
def test_a_command_answers_hostile_words_with_one_short_line(capsys, words):
    status, out, err = run(capsys, *words)
    assert status in (1, 2) and out == "" and len(err) < 1_500
    assert err.splitlines()[-1].startswith(f"toolroll {words[0]}") and "Traceback" not in err


def test_json_is_one_object_and_nothing_else_on_standard_output(capsys):
    _, out, err = run(capsys, "select", "turn the lights off", "--json", "-k", "3")
    picked = json.loads(out)
    assert err == ""
    assert set(picked) >= {
        "tools",
        "selected",
        "total",
        "tokens",
        "timings_us",
        "activated",
        "degraded",
        "event_id",
        "catalog_revision",
    }
    assert picked["selected"] == len(picked["tools"])
    assert picked["total"] >= 158


def test_plain_output_is_names_with_the_summary_aside(capsys):
    status, out, err = run(capsys, "select", "will it rain in Oslo tomorrow", "-k", "2")
    assert status == 0
    assert "get_forecast" in out.split()
    assert " tools | activated: " in err and " ms" in err


def test_explain_prints_a_table(capsys):
    _, out, _ = run(capsys, "select", "will it rain in Oslo tomorrow", "--explain")
    assert "get_forecast" in out and "dense" in out and "base toolkit" in out


def test_schemas_are_printed_ready_to_send(capsys):
    _, out, _ = run(capsys, "select", "will it rain", "-k", "1", "--schemas", "anthropic")
    assert all("input_schema" in tool for tool in json.loads(out))


def test_the_message_may_come_from_standard_input(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"will it rain tomorrow \xff")))
    _, out, _ = run(capsys, "select", "-", "-k", "2")
    assert "get_forecast" in out.split()


def test_settings_switch_toolkits(capsys):
    def names(*arguments: str) -> list[str]:
        return run(capsys, "select", "turn on the lights in the kitchen", "-k", "5", *arguments)[1].split()

    everything, none = names(), names("--setting", "something_else")
    configured = names("--setting", "home_assistant_url")
    assert configured == everything
    assert none != everything


def test_a_catalog_with_tools_jsonl_is_taken(capsys, tmp_path):
    tools = [
        {"name": "add", "description": "Add two numbers", "parameters": {}, "server": "math", "examples": []},
        {"name": "sing", "description": "Sing a song", "parameters": {}, "server": "", "examples": []},
    ]
    (tmp_path / "tools.jsonl").write_text("\n".join(map(json.dumps, tools)))
    status, out, _ = run(
        capsys, "select", "what is two plus two numbers", "--catalog", str(tmp_path), "-k", "1"
    )
    assert (status, out.split()) == (0, ["add"])


@pytest.mark.parametrize(
    ("arguments", "status", "what"),
    [
        (("select", "x", "--catalog", "/no/such/folder"), 1, "no such file or folder"),
        (("select", "x", "--profile", "best"), 1, "profile 'best': unknown"),
        (("select", "x", "--embedder", "bert"), 1, "embedder 'bert': unknown"),
    ],
)
def test_what_fails_says_what_and_exits_with_1(capsys, arguments, status, what):
    found, out, err = run(capsys, *arguments)
    assert found == status
    assert what in err
    assert err.startswith("toolroll select: ")
    assert out == ""


@each_row(
    ("arguments", "what"),
    [
        (("select", "x", "-k", "-1"), "-1 is not in the range x>=0"),
        (("select", "x", "-k", "seven"), "'seven' is not a valid integer"),
        (("select",), "MESSAGE"),
        (("select", "x", "--schemas", "cohere"), "cohere"),
        (("select", "x", "--provider", "cohere"), "cohere"),
        (("bench", "--seconds", "-1"), "is not in the range 0<x<=600"),
        (("bench", "--seconds", "nan"), "is not a number"),
        (("choose", "x"), "choose"),
        (
            ("registry", "keys", "add", "x", "--catalog", "sqlite:///x"),
            "Choose from: select, report, vouch, sync, read, administer",
        ),
        (("eval",), "FOLDER"),
        (("eval", "x", "-k", "5,1"), "must be ascending"),
        (("eval", "x", "-k", "0"), "0 is not in the range x>=1"),
        (("eval", "x", "-k", "1,,5"), "'' is not a valid integer"),
        (("eval", "x", "--limit", "0"), "0 is not in the range x>=1"),
        (("eval", "x", "--split", "dev"), "dev"),
        (("eval", "x", "--split", "all"), "cannot be an example"),
        (("eval", "x", "--embedder", "static,"), "separated by commas"),
        (("eval", "x", "--embedder", "static,static"), "names one twice"),
        (("eval", "x", "--set", "k"), "must be NAME=VALUE"),
        (("eval", "x", "--set", "k=1", "--set", "k=2"), "--set k: is given twice"),
        (("eval", "x", "y", "--run-file", "z"), "takes one folder"),
        (("select", "x", "--json", "--explain"), "not allowed with"),
    ],
)
def test_wrong_use_exits_with_2(capsys, arguments, what):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    usage, *_, error = err.splitlines()
    assert usage.startswith("Usage: toolroll ") and error.startswith("toolroll") and what in error


def test_no_command_prints_the_help(capsys):
    status, _, err = run(capsys)
    assert status == 2
    assert "select" in err and "eval" in err and "bench" in err


def test_a_malformed_toolkit_file_is_named_with_line_and_key(capsys, tmp_path):
    (tmp_path / "crm.json").write_text('{\n "name": "crm",\n "tasks": [\n  {"function": {"name": 7}}\n ]\n}')
    status, _, err = run(capsys, "select", "x", "--catalog", str(tmp_path))
    assert status == 1
    assert "crm.json:4" in err and "name" in err


posix = pytest.mark.skipif(sys.platform == "win32", reason="arguments are no bytes there, and there is no sh")


@posix
def test_bytes_that_are_no_utf8_do_not_crash_it():
    command = [sys.executable, "-m", "toolroll", "select", b"caf\xe9 weather \xff", "--json", "-k", "1"]
    picked = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert picked["degraded"] == []


@posix
def test_a_closed_pipe_is_no_traceback():
    command = f'"{sys.executable}" -m toolroll select rain --explain | true'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def test_eval_prints_one_object_with_the_keys_that_programs_read(capsys, tmp_path):
    folder = str(write(tmp_path / "mine"))
    status, out, err = run(capsys, "eval", folder, "--json", "--by", "kind", "-k", "1,2")
    judged = json.loads(out, parse_constant=pytest.fail)
    assert (status, err) == (0, "")
    assert set(judged) >= {
        "folder",
        "profile",
        "embedder",
        "split",
        "tools",
        "queries",
        "mrr",
        "seconds",
        "by",
    }
    for name in ("recall", "complete", "ndcg"):
        assert set(judged[name]) == {"1", "2"}
    assert {"precision", "recall", "false_refusals", "auroc", "messages"} <= set(judged["abstention"])
    for part in ("with_embedding", "without_embedding"):
        assert set(judged["latency_us"][part]) == {"p50", "p95", "p99"}
    assert judged["queries"] == 4


def test_eval_of_several_folders_gives_each_and_the_mean(capsys, tmp_path):
    folders = [str(write(tmp_path / name)) for name in ("one", "two")]
    judged = json.loads(run(capsys, "eval", *folders, "--json")[1])
    assert [result["folder"] for result in judged["results"]] == ["one", "two"]
    assert judged["mean"]["recall"] == judged["results"][0]["recall"]
    _, out, _ = run(capsys, "eval", *folders, "--embedder", "static,none")
    assert [line.split()[0] for line in out.splitlines()[3:9]] == ["one", "one", "two", "two", "mean", "mean"]


def test_eval_says_it_for_people_and_writes_what_was_asked_for(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    folder, ranked, picture = write(tmp_path / "mine"), tmp_path / "run.jsonl", tmp_path / "front.png"
    status, out, err = run(
        capsys, "eval", str(folder), "--run-file", str(ranked), "--plot", str(picture), "--set", "lexical=0.1"
    )
    assert (status, err) == (0, "")
    assert "4 tools, 4 messages of split test" in out and "profile default lexical=0.1" in out
    assert "no tool applies" in out and "with embedding" in out
    assert len(ranked.read_text().splitlines()) == 4
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_eval_shows_progress_to_a_person_and_leaves_the_line_empty(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    status, out, err = run(capsys, "eval", str(write(tmp_path / "mine")), "--json")
    assert status == 0 and json.loads(out)
    assert "mine, default, static: " in err
    assert err.endswith("\r\033[K")


@each_row(
    ("arguments", "what"),
    [
        (("--profile", "best"), "profile 'best': unknown"),
        (("--embedder", "bert"), "embedder 'bert': unknown"),
        (("--set", "density=1"), "parameter 'density': unknown"),
        (("--by", "colour"), "no query has 'colour'"),
        (("--run-file", "/no/such/folder/run.jsonl"), "does not exist"),
        (("--plot", "/"), "is a folder"),
    ],
)
def test_an_eval_that_fails_says_what_and_exits_with_1(capsys, tmp_path, arguments, what):
    status, out, err = run(capsys, "eval", str(write(tmp_path / "mine")), *arguments)
    assert (status, out) == (1, "")
    assert err.startswith("toolroll eval: ") and what in err


def test_an_eval_of_what_is_no_dataset_exits_with_1(capsys, tmp_path):
    status, _, err = run(capsys, "eval", str(tmp_path / "nowhere"))
    assert (status, "no such folder" in err) == (1, True)
    folder = write(tmp_path / "mine", queries=['{"id": "a", "text": "x", "gold": ["nothing"]}'])
    status, _, err = run(capsys, "eval", str(folder))
    assert status == 1
    assert "queries.jsonl:1" in err and "'nothing'" in err


def test_eval_without_matplotlib_says_how_to_get_it():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from toolroll.cli import main; sys.exit(main(['eval', 'nowhere', '--plot', 'x.png']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert 'pip install "toolroll[plot]"' in done.stderr and "Traceback" not in done.stderr


def test_bench_measures_this_machine(capsys):
    status, out, _ = run(capsys, "bench", "--tools", "20", "--seconds", "0.05", "--json")
    (result,) = json.loads(out)["results"]
    assert status == 0
    assert result["tools"] == 20
    assert 0 < result["p50_us"] <= result["p99_us"]
    assert {"embed", "pick"} <= set(result["stages_us"])
    status, out, _ = run(capsys, "bench", "--tools", "20", "--seconds", "0.05")
    assert "p99" in out and "numpy" in out


def test_an_infinite_parameter_is_text_in_json(capsys, tmp_path):
    status, out, _ = run(
        capsys, "eval", str(write(tmp_path / "mine")), "--set", "lexical_saturation=inf", "--json"
    )
    assert status == 0 and json.loads(out)["parameters"] == {"lexical_saturation": "inf"}
