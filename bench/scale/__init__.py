"""Programs that measure toolroll beyond one machine's usual size; docs/scale.md has their figures."""
