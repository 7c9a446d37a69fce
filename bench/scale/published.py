"""What a published catalog saves: the time of a start, and the memory of ten workers.

``python -m bench.scale.published [TOOLS]`` builds a folder of tools, publishes it to a local folder, and
starts replicas in processes of their own. Both starts end with the first selection. Memory is the
proportional share (PSS) of forked workers that have selected, so pages that all of them map count once.
docs/scale.md has its figures of 100,000 tools.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import workloads

TOOLS, WORKERS, STARTS = 100_000, 10, 5
MESSAGE = "please approve the overdue invoice"


def main(tools: int) -> None:
    from toolroll.snapshots.keys import SigningKey

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "tools").mkdir()
        with open(root / "tools" / "tools.jsonl", "w") as file:
            for tool in workloads.tools(tools):
                kept = {key: tool[key] for key in ("name", "description", "parameters")}
                file.write(json.dumps(kept) + "\n")
        public = SigningKey.generate(root / "key.pem").public.text
        built = _run("build", folder, public)
        starts = [_run("start", folder, public) for _ in range(STARTS)]
        first, best = starts[0]["seconds"], min(start["seconds"] for start in starts)
        held = _run("workers", folder, public)
        print(json.dumps({"built": built, "starts": starts, "workers": held}))
        print(f"built from the folder, first selection included: {built['seconds']:.2f} s")
        print(f"from the published catalog, copied first: {first:.2f} s, 1/{built['seconds'] / first:.0f}")
        print(f"from the copy on this machine: {best:.2f} s, 1/{built['seconds'] / best:.0f}")
        print(
            f"{WORKERS} workers: {held['pss_mb']:.0f} MB together, "
            f"{held['catalog_pss_mb']:.0f} MB of it the "
            f"catalog of {held['catalog_mb']:.0f} MB"
        )


def _run(what: str, folder: str, public: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale.published", what, folder, public],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _started(folder: str, public: str) -> Any:
    from toolroll import PublishedCatalogs, Toolroll

    catalogs = PublishedCatalogs(f"{folder}/shared", trust=[public], cache=f"{folder}/cache", poll_s=600)
    roll = Toolroll.from_published(catalogs, f"{folder}/tools")
    assert roll.health()["published"]["in_use"] is not None
    assert roll.select(MESSAGE, k=7).names
    return roll


def _one(what: str, folder: str, public: str) -> dict[str, Any]:
    from toolroll import Toolroll

    Toolroll.demo().select("imports what it needs late")
    start = time.perf_counter()
    if what == "build":
        roll = Toolroll.from_folder(f"{folder}/tools", hnsw=False)
        assert roll.select(MESSAGE, k=7).names
        seconds = time.perf_counter() - start
        roll.publish(f"{folder}/shared", key=f"{folder}/key.pem", source=f"{folder}/tools")
        return {"seconds": seconds}
    roll = _started(folder, public)
    if what == "start":
        return {"seconds": time.perf_counter() - start}
    children = []
    told, tell = os.pipe()
    for _ in range(WORKERS):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                roll.select(MESSAGE, k=7)
            os.write(tell, b".")
            time.sleep(600)
        children.append(child)
    for _ in children:
        os.read(told, 1)
    path = roll.health()["published"]["in_use"]["sha256"]
    pss = [_pss(child, path) for child in children]
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    size = os.path.getsize(next(Path(folder, "cache").rglob("*.catalog")))
    return {
        "pss_mb": sum(whole for whole, _ in pss) / 1e3,
        "catalog_pss_mb": sum(catalog for _, catalog in pss) / 1e3,
        "catalog_mb": size / 1e6,
    }


def _pss(process: int, path: str) -> tuple[int, int]:
    """Kilobytes of a process, and those of its mapping of the file."""
    whole = catalog = 0
    is_catalog = False
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        if line.startswith("Pss:"):
            kilobytes = int(line.split()[1])
            whole += kilobytes
            catalog += kilobytes * is_catalog
        elif "-" in line.split(" ", 1)[0]:
            is_catalog = path in line
    return whole, catalog


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("build", "start", "workers"):
        print(json.dumps(_one(*sys.argv[1:4])))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else TOOLS)
