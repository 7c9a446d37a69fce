"""What `import toolroll` offers with the base installation alone."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys

class Blocks:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocks())
from toolroll import *
assert Toolroll.demo().select("rain").names
for name in ("PublishedCatalogs", "Registry"):
    assert name not in globals()
    try:
        exec(f"from toolroll import {name}")
    except Exception as error:
        print(error)
"""


def test_a_star_import_needs_no_extra_and_the_rest_says_which_it_needs():
    extras = ("sqlalchemy", "alembic", "pysqlite3", "psycopg", "fsspec", "cryptography", "pyarrow", "duckdb")
    done = subprocess.run([sys.executable, "-c", _PROGRAM, *extras], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    published, store = done.stdout.splitlines()
    assert "toolroll[published]" in published and "toolroll[store]" in store
