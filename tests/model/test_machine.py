"""Run the model's state machine with two applications on one store."""

import faulthandler
import itertools
import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
import uvloop
from conftest import lifespan
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test
from model.asgi import App
from model.behind import Behind
from model.drawn import MODELS_FILE
from model.hard_places import HardPlaces
from model.machine import TENANTS, Service, Steps
from rigs.servers import Cluster, binaries, server

from sash.api.events import event_bodies
from sash.app import create_app
from sash.settings import ApiKey, Settings
from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.media_erasures import MediaErasures
from sash.store.data.object_storage import open_objects
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

STORE = os.environ.get("MODEL_STORE", "embedded")
SEED = int(os.environ.get("MODEL_SEED") or (1 if os.environ.get("CI") else random.SystemRandom().randrange(10**9)))
"""CI runs one fixed sequence, so that its runs differ only by the change; a run by hand takes another one each time."""
STEPS = int(os.environ.get("MODEL_STEPS") or 0)
SHRINK = os.environ.get("MODEL_SHRINK") == "1"
"""Whether to look for a shorter sequence when one fails, which takes minutes."""
HARD = {"several_agents_work": 12, "media_vanish": 30, "follow_from_far_behind": 20, "hostile_parts": 40}
"""How often each operation is done by itself."""
LENGTH = 100
"""Steps of an example: enough for a history of a hundred messages and for three lives of a name."""
MASTERS = (b"model".ljust(32),)


def _started(name: str, folder: Path, stack: ExitStack) -> str:
    """Start a store of this kind, which runs until the stack is unwound, and return its URL."""
    if name == "embedded":
        return stack.enter_context(EmbeddedStore(folder, fsync="everysec")).url
    kind, _, cluster = name.partition("-cluster")
    binary = binaries()[kind + cluster]
    assert binary is not None, f"there is no {kind} here"
    if not name.endswith("-cluster"):
        return stack.enter_context(server(binary, folder, appendfsync="everysec")).url
    nodes = Cluster(binary, folder, appendfsync="everysec")
    stack.callback(nodes.kill)
    return nodes.start().url


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Turn logging off: one line per request would be a hundred thousand lines."""
    standing = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**standing)


@pytest.fixture(autouse=True)
def far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let followers pull three versions, or 500 bytes of messages, at once: each is as far behind as one of thousands."""
    monkeypatch.setattr(event_bodies, "_AT_ONCE", 3)
    monkeypatch.setattr(event_bodies, "_PAGE_BYTES", 500)


@pytest.fixture
def store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a store of the test's own: what one encrypts, a service without the key refuses to add to."""
    with ExitStack() as stack:
        yield _started(STORE, tmp_path_factory.mktemp("model"), stack)


NIGHTLY = pytest.mark.nightly


@pytest.fixture(
    params=[
        "plain",
        pytest.param("encrypted", marks=NIGHTLY),
        pytest.param("plain-objects", marks=NIGHTLY),
        "encrypted-objects",
    ]
)
def service(request: pytest.FixtureRequest, store_url: str, tmp_path: Path) -> Iterator[Service]:
    """Yield two applications on the store, like two processes; pictures are in the store, or objects in a folder.

    Each value is in every run, every pair nightly.
    """
    kind, _, place = request.param.partition("-")
    keys, folder = MASTERS if kind == "encrypted" else (), tmp_path / "media" if place else None
    models = tmp_path / "models.toml"
    models.write_text(MODELS_FILE)
    wanted = Settings(
        redis_url=store_url,
        store_connections=1,
        durability="fast",
        encryption_key=keys,
        recall="lexical",
        models_file=models,
        media_url=folder.as_uri() if folder else None,
        api_keys=tuple(ApiKey(tenant, key) for tenant, key in TENANTS.items()),
    )
    loop = uvloop.new_event_loop()
    behind = Behind(store_url, TENANTS, folder)
    stack = AsyncExitStack()

    async def opened() -> App:
        return await stack.enter_async_context(lifespan(create_app(wanted)))

    try:
        apps = loop.run_until_complete(opened()), loop.run_until_complete(opened())
        yield Service(apps, loop, behind, encrypted=bool(keys))
        if folder is not None:
            loop.run_until_complete(_sweep(store_url, folder))
            assert behind.objects() == set()  # all conversations were erased
    finally:
        loop.run_until_complete(stack.aclose())
        loop.close()
        behind.close()


async def _sweep(store_url: str, folder: Path) -> None:
    """Erase what no message has had for a day, as if it were the day after tomorrow."""
    client = Client(store_url, durability="fast")
    await client.open()
    try:
        objects = open_objects(folder.as_uri(), timeout_seconds=5)
        assert objects is not None
        its = MediaErasures(client, MarkedStorage(client, objects))
        await its.sweep(datetime.now(UTC) + timedelta(days=2))
    finally:
        await client.close()


def run(service: Service, steps: int, report: Callable[[str], None]) -> None:
    """Run about ``steps`` steps of the machine, in examples of a hundred, and report the seed, with which they repeat."""

    class Here(HardPlaces):
        pass

    Here.service, Here.done = service, Steps()
    wanted = settings(
        max_examples=max(1, steps // LENGTH),  # some end early, so there may be more than one round
        stateful_step_count=LENGTH,
        deadline=None,
        database=None,
        print_blob=False,
        phases=tuple(Phase) if SHRINK else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    faulthandler.cancel_dump_traceback_later()  # the number of steps, or the minutes of shrinking, limit the run
    started = time.monotonic()
    try:
        for seed in itertools.count(SEED):
            Here._hypothesis_internal_use_seed = seed
            try:
                run_state_machine_as_test(Here, settings=wanted)
            except FlakyStrategyDefinition:
                # Two operations at once may end in another order when their example is tried again.
                if Here.done.failure is not None:
                    raise Here.done.failure from None
            if Here.done.steps >= steps * 0.9:
                break
    finally:
        seconds = time.monotonic() - started
        done = Here.done
        report(
            f"MODEL_SEED={SEED} MODEL_STEPS={steps} MODEL_STORE={STORE}: {done.examples} examples, {done.steps} steps, "
            f"{done.requests} requests, {seconds:.1f} s"
        )


def test_the_model(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """500 steps in each way to keep messages and pictures, or MODEL_STEPS, agree with the model."""
    run(service, STEPS or 500, lambda line: _say(capsys, line))


@pytest.mark.parametrize(
    ("service", "place"),
    [
        ("encrypted", "several_agents_work"),
        pytest.param("plain", "several_agents_work", marks=NIGHTLY),
        ("plain-objects", "media_vanish"),
        pytest.param("encrypted-objects", "media_vanish", marks=NIGHTLY),
        ("encrypted-objects", "follow_from_far_behind"),
        pytest.param("plain", "follow_from_far_behind", marks=NIGHTLY),
        ("plain", "hostile_parts"),
        pytest.param("encrypted-objects", "hostile_parts", marks=NIGHTLY),
    ],
    indirect=["service"],
)
def test_a_hard_place(service: Service, place: str) -> None:
    """Each operation that windows once failed at, several times over a growing conversation."""

    class Here(HardPlaces):
        pass

    Here.service, Here.done = service, Steps()
    state, chance = Here(), random.Random(SEED)
    for _ in range(HARD[place]):
        state.append_turns(seed=chance.randrange(2**32))
        getattr(state, place)(seed=chance.randrange(2**32))
    state.teardown()


@pytest.mark.nightly
def test_the_model_at_length(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """50,000 steps, or MODEL_STEPS, agree with the model."""
    run(service, STEPS or 50_000, lambda line: _say(capsys, line))


def _say(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n{line}")
