"""Large bodies: read and checked on threads of their own, because where requests come in they would stop all others."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from anyio import to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.types import Message

from levers.web.limits.admission import LARGE


class LargeBodyRoute(APIRoute):
    """An operation whose body is read and checked on a thread with a loop of its own when it is large."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What handles a request."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            if len(await request.body()) <= LARGE:
                return await handle(request)
            return await to_thread.run_sync(lambda: asyncio.run(handle(request)))

        return handler


async def form_of(request: Request, **limits: int) -> FormData:
    """The fields of a form. Whoever asks closes it."""
    body = await request.body()
    if len(body) <= LARGE:
        return await request.form(**limits)

    async def received() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def read() -> FormData:
        return await Request(request.scope, received).form(**limits)

    return await to_thread.run_sync(lambda: asyncio.run(read()))
