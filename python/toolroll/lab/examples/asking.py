"""Asks a model for the messages of a plan: several requests at a time, each answer logged as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from toolroll.lab.examples.answers import AnswerLog, ModelAnswer, read_reply
from toolroll.lab.examples.chat_endpoint import ChatEndpoint, ChatUnavailable
from toolroll.lab.examples.plan import output_tokens
from toolroll.lab.examples.prompt import ToolRequest, prompt

ATTEMPTS = 3  # of a batch whose answer is no JSON, or lacks tools
MOST_FAILURES = 3  # requests in a row without an answer, after which the server is given up

_SPARE_TOKENS = 4_000  # beyond four times the estimate, for a model that thinks aloud

Progress = Callable[[int, int], None]


class RequestRun:
    """One run over the batches of a plan. answers: by tool. skipped: tool → why it has no answer."""

    def __init__(self, endpoint: ChatEndpoint, log: AnswerLog, language: str) -> None:
        self.answers: dict[str, ModelAnswer] = {}
        self.skipped: dict[str, str] = {}
        self._endpoint, self._log, self._language = endpoint, log, language
        self._failures = 0

    def run(
        self, batches: Sequence[Sequence[ToolRequest]], concurrency: int, progress: Progress | None = None
    ) -> None:
        """Asks for all batches. progress: called with (tools done, tools in all).

        Raises:
            ChatUnavailable: the server rejects every request, or no longer answers. Earlier answers are in
                the log.
            InvalidInput: the log cannot be written.
        """
        asyncio.run(self._run(batches, concurrency, progress))

    async def _run(
        self, batches: Sequence[Sequence[ToolRequest]], concurrency: int, progress: Progress | None
    ) -> None:
        waiting = iter(batches)
        total, done = sum(map(len, batches)), 0

        async def work() -> None:
            nonlocal done
            for batch in waiting:  # shared: each batch is taken once
                await self._ask(batch)
                done += len(batch)
                if progress is not None:
                    progress(done, total)

        workers = [asyncio.create_task(work()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _ask(self, batch: Sequence[ToolRequest]) -> None:
        left = list(batch)
        for _ in range(ATTEMPTS):
            try:
                text = await self._endpoint.complete(
                    prompt(left, self._language), _SPARE_TOKENS + 4 * output_tokens(left)
                )
            except ChatUnavailable as error:
                self._failures += 1
                if error.is_final or self._failures >= MOST_FAILURES:
                    raise
                self._skip(left, str(error))
                return
            self._failures = 0
            found = read_reply(text, {each.tool.name for each in left})
            for each in left:
                if (answer := found.get(each.tool.name)) is not None:
                    self._log.add(each, answer)
                    self.answers[each.tool.name] = answer
            left = [each for each in left if each.tool.name not in found]
            if not left:
                return
        self._skip(left, f"no valid answer in {ATTEMPTS} attempts")

    def _skip(self, batch: Sequence[ToolRequest], reason: str) -> None:
        self.skipped |= {each.tool.name: reason for each in batch}
