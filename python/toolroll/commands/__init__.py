"""The commands of `toolroll`, `registry` in several files: `add` declares arguments, `run` does the work."""
