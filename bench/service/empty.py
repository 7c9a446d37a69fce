"""The same framework and server with an endpoint that does nothing, for comparison."""

from __future__ import annotations

import sys

import uvicorn
from fastapi import FastAPI, Response

application = FastAPI()


@application.post("/select")
async def nothing() -> Response:
    return Response(b"{}", media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(application, port=int(sys.argv[1]), log_level="warning", access_log=False, ws="none")
