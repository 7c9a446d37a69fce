"""Selections for frameworks and monitoring systems, one file each. A file imports its extra at its top."""
