"""HEAD wherever there is GET: the same answer without its body."""

from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """An application that answers HEAD as it answers GET, and sends no body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; of an answer to HEAD, only its beginning."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        with CancelScope() as working:

            async def head(message: Message) -> None:
                if message["type"] == "http.response.start":
                    await send(message)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                elif message.get("more_body"):
                    working.cancel()  # a stream without an end must not go on for somebody who wants its beginning

            await self._app({**scope, "method": "GET"}, receive, head)
