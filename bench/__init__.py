"""Microbenchmarks beside what a user would take instead: same data, same run, checked, then timed.

Importing this package fixes what the libraries read when they are loaded: one thread each, and numpy's
BLAS free to choose its best kernel for this machine. It has to come before numpy does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: True where numpy was loaded before this package and may run with several threads or a slower kernel.
numpy_came_first = "numpy" in sys.modules

for _name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ[_name] = "1"
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NPY_DISABLE_CPU_FEATURES"):
    os.environ.pop(_name, None)

# Peers live in environments without toolroll; their data comes from its sources. Behind all else on the
# path: an installed toolroll goes first.
sys.path.append(str(Path(__file__).parents[1] / "python"))
