"""Tests the deployment's statistics: every worker's figures are added once and expire."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import redis
from operations.window_facts import NOTHING, made

from sash.core.counts.models.models import find_model
from sash.core.counts.models.price_tiers import PriceTier
from sash.operations.metrics import Metrics
from sash.operations.requests import Pseudonyms, Requests
from sash.operations.statistics import Statistics
from sash.operations.summary import Prices
from sash.problems import StoreUnavailable
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

NOON = 1_800_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest_asyncio.fixture
async def client(store: EmbeddedStore) -> AsyncIterator[Client]:
    opened = Client(store.url)
    await opened.open()
    yield opened
    await opened.close()


class Clock:
    """A clock, in milliseconds, that changes only when a test sets it."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now


Made = Callable[..., tuple[Metrics, Statistics]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker(client: Client, clock: Clock, fresh: Callable[[], str], server: redis.Redis) -> Any:
    """A function that makes workers of one deployment, whose statistics no other test uses."""
    tag = f"stats-{fresh()}"

    def made(through: Any = client) -> tuple[Metrics, Statistics]:
        metrics = Metrics()
        metrics.windows.names.know(dict.fromkeys(["gpt-4o"], "openai"))
        return metrics, Statistics(
            through,
            metrics,
            Requests(metrics, Pseudonyms(), None),
            prices=lambda _: Prices(2.5, 1.25),
            now_ms=clock,
            tag=tag,
        )

    yield made
    for key in server.scan_iter(f"sash:{{{tag}}}*"):
        assert server.pttl(key) > 0
        server.delete(key)


async def test_all_workers_together(worker: Made):
    """One worker's statistics contain the figures that other workers added."""
    (a, statistics_a), (b, statistics_b) = worker(), worker()
    a.windows.record_window(made(), 0.001, {})
    b.windows.record_window(made(), 0.001, {})
    b.windows.record_window(made("unheard of"), 0.001, {})
    await statistics_a.flush()
    stats = await statistics_b.read()
    assert stats.hour.all.windows == 3
    assert {each.model: each.windows for each in stats.hour.models} == {"gpt-4o": 2, "other": 1}


async def test_nothing_is_added_twice(worker: Made):
    """Each flush adds only the figures since the last flush."""
    metrics, statistics = worker()
    metrics.windows.record_window(made(), 0.001, {})
    await statistics.flush()
    await statistics.flush()
    metrics.windows.record_window(made(), 0.001, {})
    await statistics.flush()
    assert (await statistics.read()).start.all.windows == 2


class Deaf:
    """A store client that loses the reply to the first script call."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lost = 1

    async def run(self, call: Any) -> Any:
        reply = await self._client.run(call)
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("the reply was lost")
        return reply

    async def commands(self, words: Any) -> Any:
        return await self._client.commands(words)


async def test_a_lost_answer_adds_nothing_twice(worker: Made, client: Client):
    """If the reply to an addition is lost, the addition is sent again and counted once."""
    metrics, statistics = worker(Deaf(client))
    metrics.windows.record_window(made(), 0.001, {})
    await statistics.flush_or_later()
    metrics.windows.record_window(made(), 0.001, {})
    stats = await statistics.read()
    assert stats.hour.all.windows == 2
    assert stats.start.all.kept_messages == 14
    assert metrics.registry.flat("sash_statistics") == {"sash_statistics_failures_total": 1}


async def test_the_hour_the_day_and_the_start(worker: Made, clock: Clock):
    """Each range counts the windows in it: the last hour, the last day, and all since the start."""
    metrics, statistics = worker()
    for now in (NOON, NOON + 25 * HOUR, NOON + 48 * HOUR, NOON + 48 * HOUR + 30 * MINUTE):
        clock.now = now
        metrics.windows.record_window(made(), 0.001, {})
        await statistics.flush()
    stats = await statistics.read()
    assert [each.all.windows for each in (stats.hour, stats.day, stats.start)] == [2, 3, 4]
    assert stats.start.seconds == (48 * HOUR + 30 * MINUTE) // 1000
    assert (len(stats.hour.timeline), len(stats.day.timeline), stats.start.timeline) == (61, 25, [])
    assert [point.windows for point in stats.hour.timeline if point.windows] == [1, 1]
    assert stats.hour.timeline[-1].at == "2027-01-17T08:30:00Z"


async def test_an_answer_is_given_again_for_a_second(worker: Made):
    """Statistics are cached, so that many dashboards cost the store no more than one."""
    metrics, statistics = worker()
    before = await statistics.read()
    metrics.windows.record_window(made(), 0.001, {})
    assert await statistics.read() is before


async def test_a_deployment_that_did_nothing(worker: Made):
    """Statistics of a deployment without requests have zeros and nulls."""
    _, statistics = worker()
    stats = await statistics.read()
    assert stats.day.all.windows == 0
    assert stats.day.all.tokens.p50 is None
    assert stats.hour.all.saved.documents_usd is None
    assert stats.start.since == stats.at


async def test_what_was_saved_in_money(worker: Made):
    """Saved documents and history count at the input price of the window's tier, reads at what they are cheaper by."""
    metrics, statistics = worker()
    gpt = msgspec.structs.replace(
        find_model("gpt-4o"), input_price=2.5, cached_input_price=1.25, price_tiers=(PriceTier(800, 5.0, 2.5, None),)
    )
    metrics.windows.record_window(made(dropped=NOTHING), 0.001, {})
    metrics.left_out.count_savings(made().head, "gpt-4o", gpt, 2_000_000)
    await statistics.flush()
    metrics.bills.record_cache(gpt, billed=1_000_000, read=400_000, written=0)
    metrics.bills.record_cache(gpt, billed=700, read=400, written=0)
    (model,) = (await statistics.read()).start.models
    assert (model.saved.documents_usd, model.saved.cuts_usd, model.saved.tiers_usd) == (10.0, 0.0006, 0.0)
    assert model.cache.saved_usd == pytest.approx(1.0005)
    assert model.cost.billed_usd == pytest.approx(4.0 + 0.00125)


async def test_prediction_error(worker: Made):
    """The mean prediction error in tokens keeps its sign; the mean share uses absolute errors."""
    metrics, statistics = worker()
    metrics.bills.record_usage("gpt-4o", predicted=90, billed=100)
    metrics.bills.record_usage("gpt-4o", predicted=104, billed=100)
    prediction = (await statistics.read()).start.all.prediction
    assert (prediction.reports, prediction.under, prediction.over) == (2, 1, 1)
    assert (prediction.mean_error_tokens, prediction.mean_error_share) == (-3.0, 0.07)
