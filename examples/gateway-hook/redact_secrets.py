"""A hook for toolroll's gateway: no key or password in a tool's result reaches the model."""

from __future__ import annotations

import re
from typing import Any

from toolroll.gateway.hooks import CallHook, PlannedCall

SECRETS = {
    "AWS access key": r"\bAKIA[0-9A-Z]{16}\b",
    "GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36,}",
    "API key": r"\bsk-[A-Za-z0-9_-]{20,}",
    "JSON web token": r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    "password": r"(?<=://)[^\s/:@]*:[^\s/@]+(?=@)",  # in a URL
}


class RedactSecrets(CallHook):
    """Replaces secrets in all texts of a result."""

    def __init__(self) -> None:
        self._patterns = [(re.compile(pattern, re.DOTALL), name) for name, pattern in SECRETS.items()]

    async def after(self, call: PlannedCall, result: dict[str, Any]) -> dict[str, Any]:
        """Returns the result without secrets: its texts, and its structured content."""
        redacted: dict[str, Any] = self._redacted(result)
        return redacted

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            for pattern, name in self._patterns:
                value = pattern.sub(f"[{name} removed]", value)
            return value
        if isinstance(value, list):
            return [self._redacted(each) for each in value]
        if isinstance(value, dict):
            return {key: self._redacted(each) for key, each in value.items()}
        return value
