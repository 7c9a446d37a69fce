"""The commands of `toolroll`, a file each: `add` declares its arguments, `run` does the work."""
