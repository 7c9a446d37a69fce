"""The instruction set is what the CPU has, and the environment can only lower it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.table import each_row
from toolroll import _core

SETS = {"x86_64": ["baseline", "avx2", "avx512"], "aarch64": ["baseline", "neon"]}


def isa_of_a_new_process(wanted: str | None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TOOLROLL_ISA"}
    if wanted is not None:
        environment["TOOLROLL_ISA"] = wanted
    code = "from toolroll import _core; print(_core.isa())"
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def what_the_kernel_lists() -> str:
    flags = Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    avx2 = {"avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "popcnt"} <= set(flags)
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"} <= set(flags)
    return "avx512" if avx2 and wide else "avx2" if avx2 else "baseline"


def test_the_name_is_one_of_the_four() -> None:
    assert _core.isa() in {"baseline", "neon", "avx2", "avx512"}


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not Path("/proc/cpuinfo").exists(),
    reason="reads Linux's list of x86 flags",
)
def test_it_agrees_with_what_the_operating_system_lists() -> None:
    assert isa_of_a_new_process(None) == what_the_kernel_lists()


def test_the_environment_lowers_it_and_never_raises_it() -> None:
    ranks = SETS.get(platform.machine(), ["baseline"])
    best = isa_of_a_new_process(None)
    for wanted in ranks:
        assert isa_of_a_new_process(wanted) == min(wanted, best, key=ranks.index)


@each_row("wanted", ["", "sse9", "AVX2 ", "x" * 100])
def test_an_unknown_name_is_ignored(wanted: str) -> None:
    assert isa_of_a_new_process(wanted) == isa_of_a_new_process(None)
