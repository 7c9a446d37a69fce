"""One module for each kind of operation; each has ``cases(quick: bool) -> Iterator[Case | Figure]``."""
