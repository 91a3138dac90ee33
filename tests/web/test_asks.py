"""Asks for runs that are all with others wait at the door: for a run, for a moment, or until their client leaves."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Message, Receive

from levers.web.errors import RefusedError
from levers.web.limits.asks import BURST, AskQueues

STUDY = "oven"


class Runs:
    """How many runs there are to hand out."""

    def __init__(self, n_free: int | None) -> None:
        self.n_free = n_free
        self.is_stopping = False
        self.queues = AskQueues(lambda _: self.n_free, lambda: self.is_stopping)

    async def ask(self, receive: Receive, check: Callable[[], Awaitable[None]] | None = None) -> bool:
        return await self.queues.enter(STUDY, receive, check or allowed)


async def allowed() -> None:
    """Whoever asks may."""


async def stays() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("nobody sends anything more")


async def let_all_in(runs: Runs) -> int:
    """Ask until somebody has to wait; returns how many did not."""
    n_in = 0
    while True:
        waiting = asyncio.ensure_future(runs.ask(stays))
        await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            await asyncio.sleep(0)
            return n_in
        n_in += 1


async def rounds(n: int = 5) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


def test_as_many_enter_as_there_are_runs_and_a_few_more() -> None:
    async def scenario() -> None:
        runs = Runs(3)
        assert 3 + BURST <= await let_all_in(runs) <= 3 + BURST + 2

    asyncio.run(scenario())


def test_nobody_waits_where_it_is_not_known_how_many_runs_there_are() -> None:
    async def scenario() -> None:
        runs = Runs(None)
        assert all([await runs.ask(stays) for _ in range(100)])

    asyncio.run(scenario())


def test_who_waits_enters_first_come_first_served_when_runs_are_there() -> None:
    async def scenario() -> None:
        runs, entered = Runs(0), list[int]()
        n_in = await let_all_in(runs)

        async def ask(i: int) -> None:
            assert await runs.ask(stays)
            entered.append(i)

        waiting = [asyncio.ensure_future(ask(i)) for i in range(3)]
        await rounds()
        assert entered == []
        runs.n_free = n_in + 2
        runs.queues.look(f"/api/v1/studies/{STUDY}/tell")
        await rounds()
        assert entered == [0, 1]
        await asyncio.wait_for(asyncio.gather(*waiting), 30)  # the last one after a moment, though nothing is there
        assert entered == [0, 1, 2]

    asyncio.run(scenario())


def test_nothing_is_set_aside_for_a_client_that_left() -> None:
    async def scenario() -> None:
        runs, left = Runs(0), asyncio.Event()
        n_in = await let_all_in(runs)

        async def leaves() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        gone = asyncio.ensure_future(runs.ask(leaves))
        await rounds()
        left.set()
        assert await asyncio.wait_for(gone, 30) is False
        for _ in range(n_in):
            runs.queues.leave(STUDY)
        assert runs.queues._queues == {}

    asyncio.run(scenario())


def test_who_may_not_ask_does_not_wait_with_the_others() -> None:
    async def scenario() -> None:
        runs = Runs(0)
        await let_all_in(runs)

        async def refused() -> None:
            raise RefusedError(401, "no")

        with pytest.raises(RefusedError):
            await runs.ask(stays, refused)

    asyncio.run(scenario())


def test_all_enter_when_the_service_stops() -> None:
    async def scenario() -> None:
        runs = Runs(0)
        await let_all_in(runs)
        waiting = [asyncio.ensure_future(runs.ask(stays)) for _ in range(40)]
        await rounds()
        runs.is_stopping = True
        runs.queues.look(f"/api/v1/studies/{STUDY}/tell")
        await rounds()
        assert all(one.done() for one in waiting)

    asyncio.run(scenario())
