"""What deploy/ has: the image's steps without a container engine, and the settings in its files."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")
pytest.importorskip("fastapi")

import yaml

from tests.integration.test_serve import free_port
from toolroll import Registry, Tool
from toolroll.server.gate import OPEN_PATHS
from toolroll.server.settings import ServerSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
USER = 10001  # of the image
SETTINGS = {f"TOOLROLL_SERVER_{name.upper()}" for name in ServerSettings.model_fields} | {"TOOLROLL_CATALOG"}


def dockerfile() -> str:
    return (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")


def image_environment() -> dict[str, str]:
    """The variables that the image sets."""
    (line,) = re.findall(r"^ENV (.+)$", dockerfile(), re.MULTILINE)
    return dict(word.partition("=")[::2] for word in shlex.split(line))


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def container() -> dict[str, Any]:
    (found,) = manifests()[0]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_every_variable_in_the_files_is_a_setting_with_a_right_value():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["toolroll"]["environment"]
    kubernetes = {each["name"]: each.get("value") for each in container()["env"]}
    for given in (image_environment(), compose, kubernetes):
        ours = {name: value for name, value in given.items() if name.startswith("TOOLROLL_")}
        assert set(ours) <= SETTINGS
        values = {
            name.removeprefix("TOOLROLL_SERVER_").lower(): json.loads(value)
            if str(value)[:1] == "["
            else value
            for name, value in ours.items()
            if value is not None and name != "TOOLROLL_CATALOG"
        }
        ServerSettings(**{"catalog": "sqlite:///t.db", **values})


def test_probes_ask_what_needs_no_key_and_the_grace_period_fits():
    pod = manifests()[0]["spec"]["template"]["spec"]
    probes = [container()[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")]
    assert probes == ["/readyz", "/readyz", "/healthz"]
    assert set(probes) <= OPEN_PATHS
    grace_s = float(next(each["value"] for each in container()["env"] if each["name"].endswith("GRACE_S")))
    assert pod["terminationGracePeriodSeconds"] > grace_s


def test_nothing_runs_as_root_or_writes_beside_its_volumes():
    assert re.search(rf"^USER {USER}:{USER}$", dockerfile(), re.MULTILINE)
    secured = container()["securityContext"]
    assert secured["readOnlyRootFilesystem"] and not secured["allowPrivilegeEscalation"]
    assert manifests()[0]["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == USER
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["toolroll"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    mounts = {each["mountPath"] for each in container()["volumeMounts"]}
    assert str(Path(image_environment()["TOOLROLL_SERVER_OUTBOX"]).parent) in mounts


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("TOOLROLL_DEPLOY"), reason="builds a wheel: tools/long_tier.sh deploy")
def test_the_images_steps_give_a_service_that_another_user_runs_and_that_stops_in_time(tmp_path):
    folder = tmp_path / "toolroll"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([DEPLOY / "install.sh", folder], env=clean, check=True, timeout=3_000)
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid == os.geteuid() and each != Path("/tmp"):
            each.chmod(each.stat().st_mode | 0o055)
    data = tmp_path / "data"
    data.mkdir()
    url = f"sqlite:///{data}/tools.db"
    with Registry.open(url) as registry:
        registry.create(Tool("ping", "Asks whether a host is there"))
        key = registry.keys.add("test", roles=["select", "report"], org=None)[1]
    outbox = tmp_path / "outbox"
    outbox.mkdir()
    other = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    if other and not runs(folder / "bin" / "python", other):
        other = {}  # this machine's Python, which the environment links to, is in a folder of root's
    if other:
        for path in (data, *data.iterdir(), outbox):
            os.chown(path, USER, USER)

    port = free_port()
    base = f"http://127.0.0.1:{port}"
    environment = image_environment() | {
        "PATH": f"{folder}/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "TOOLROLL_SERVER_CATALOG": url,
        "TOOLROLL_SERVER_OUTBOX": str(outbox / "records"),
        "TOOLROLL_SERVER_PORT": str(port),
        "TOOLROLL_SERVER_HOSTS": '["127.0.0.1"]',
    }
    process = subprocess.Popen([f"{folder}/bin/toolroll", "serve"], env=environment, cwd="/", **other)
    try:
        deadline = time.monotonic() + 60
        while not answers(f"{base}/readyz"):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.2)
        probe = re.search(r"HEALTHCHECK .*CMD (\[.+\])", dockerfile())
        assert probe is not None
        python, *rest = json.loads(probe[1])
        rest[-1] = rest[-1].replace("127.0.0.1:8080", f"127.0.0.1:{port}")
        subprocess.run([f"{folder}/bin/{python}", *rest], check=True, timeout=120)
        asked = urllib.request.Request(
            f"{base}/select",
            b'{"message": "ping the host"}',
            {"X-Service-Key": key, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=120) as answer:
            selection = json.loads(answer.read())
        assert selection["names"] == ["ping"]
        outcome = json.dumps({"selection": selection["event_id"], "called": {"ping": True}}).encode()
        told = urllib.request.Request(f"{base}/outcomes", outcome, asked.headers)
        with urllib.request.urlopen(told, timeout=120) as answer:
            assert json.loads(answer.read())["counted"] == 1
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(30)
    assert status in (0, -signal.SIGTERM)


def runs(python: Path, other: dict[str, Any]) -> bool:
    """Whether another user can run this interpreter."""
    try:
        return subprocess.run([python, "-c", ""], cwd="/", **other).returncode == 0
    except PermissionError:
        return False


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        return False
