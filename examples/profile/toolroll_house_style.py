"""The parameters that our services select with."""

from toolroll import Profile

PROFILE = Profile(k=3, max_tools=6)
