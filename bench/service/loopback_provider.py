"""A provider that answers chat completions at once, with little of the processor."""

from __future__ import annotations

import asyncio
import sys

_REPLY = b'{"id":"1","object":"chat.completion","created":0,"model":"m","choices":[]}'
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_REPLY)
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause_s: float) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            at = head.lower().index(b"content-length:") + 15
            body = await reader.readexactly(int(head[at : head.index(b"\r", at)]))
            if b'"stream":true' in body:
                writer.write(_STREAM + b"9\r\ndata: 1\n\n\r\n")
                await asyncio.sleep(pause_s)
                writer.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
            else:
                writer.write(_HEAD + _REPLY)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        writer.close()


async def main(port: int, pause_s: float) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: answer(reader, writer, pause_s), "127.0.0.1", port, limit=1 << 20
    )
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
