"""Whether the installed package is older than its sources: no installation compiles the core again by itself."""

from __future__ import annotations

from pathlib import Path

COMMAND = "pip install --no-build-isolation -e '.[test,lint]'"


def complaint(package: Path, core: Path, root: Path) -> str:
    """What to do if the module `core` was built before a source under `root` changed; empty if it was not.

    A `package` outside of `root`/python is a copy, which is older than changed Python files, too.
    """
    sources = [*root.glob("cpp/**/*.[ch]pp")]
    if not package.is_relative_to(root / "python"):
        sources += root.glob("python/toolroll/**/*.py")
    newest = max(sources, key=lambda path: path.stat().st_mtime)
    if newest.stat().st_mtime <= core.stat().st_mtime:
        return ""
    return f"the installed toolroll is older than {newest.relative_to(root)}; run: {COMMAND}"
