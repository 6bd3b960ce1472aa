"""Operations on long histories run in steps, and an operation that stopped between steps leaves nothing old to read."""

import asyncio
import time
from typing import Any

import pytest
import pytest_asyncio
import redis
from conftest import opened
from rigs.entries import texts_of

from sash.core.chat.messages import Document, Entry, Grounding
from sash.core.law.documents.grounding import parse_template
from sash.store.data import write_scripts
from sash.store.data.conversations import Conversations
from sash.store.data.entries import prepare
from sash.store.data.histories import Histories
from sash.store.data.layout import keys_of, life_of, target_at
from sash.store.data.staging import Staging
from sash.store.data.tails import Reach
from sash.store.redis.embedded import EmbeddedStore

TEMPLATE = parse_template()
APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}
SLOW_MILLISECONDS = 20


@pytest_asyncio.fixture
async def conversations(store: EmbeddedStore, nothing_left: None):  # noqa: ARG001 - it checks afterwards
    """Yield conversations on the tests' store."""
    async with opened(store.url) as opened_conversations:
        yield opened_conversations


def noted(count: int, text: str) -> list[Any]:
    """Return entries with documents and metadata that contain ``text``."""
    entries = [
        Entry(
            message={"role": "user", "content": f"{text} {n}"},
            grounding=Grounding([Document(text=text)]),
            metadata={"said": text},
        )
        for n in range(count)
    ]
    return prepare(entries, TEMPLATE, 1_700_000_000_000)


async def fill(conversations: Conversations, conversation: str, count: int) -> str:
    """Append ``count`` messages with documents and metadata, and return the conversation's ETag."""
    for _ in range(count // 100):
        reply = await conversations.append(target_at("default", conversation), noted(100, "forgotten"), **APPEND)
    return reply.etag


async def cut(
    conversations: Conversations, conversation: str, etag: str, keep: int, count: int
) -> write_scripts.Rewound:
    """Run only the first step of a rewind, as when the service ends right after it."""
    (tokens,) = {entry.tokens for entry in noted(1, "forgotten")}
    gone = count - keep
    documents = noted(1, "forgotten")[0].record.grounding
    call = write_scripts.rewind(
        keys_of(f"default/{conversation}"),
        life=life_of(etag),
        if_match=etag,
        token="t",
        now_ms=1,
        to_seq=keep,
        less=(tokens[0] * gone, tokens[1] * gone, gone, documents[0] * gone, documents[1] * gone),
        open="",
        question=keep,
        unpinned=(),
    )
    return await conversations._client.run(call)


async def test_a_long_rewind_is_swept_in_steps(conversations: Conversations, conversation: str, server: Any) -> None:
    """The first step of a long rewind cuts the history and sweeps 1,000 messages; two more steps sweep the rest."""
    etag = await fill(conversations, conversation, 2500)
    rewound = await cut(conversations, conversation, etag, 10, 2500)
    metadata = f"sash:{{default/{conversation}}}:metadata"
    assert (rewound.stale, server.hlen(metadata)) == (1500, 1500)

    steps = 0
    stale = rewound.stale
    while stale:
        stale = await conversations._client.run(
            write_scripts.sweep(keys_of(f"default/{conversation}"), life=life_of(etag))
        )
        steps += 1

    assert (steps, server.hlen(metadata)) == (2, 10)
    assert not server.hexists(f"sash:{{default/{conversation}}}:conversation", "stale")


async def test_a_rewind_that_stopped_shows_nothing_old(
    conversations: Conversations, conversation: str, server: Any
) -> None:
    """After a rewind that stopped, later messages show no old documents or metadata, and later appends sweep them."""
    etag = await fill(conversations, conversation, 2500)
    await cut(conversations, conversation, etag, 10, 2500)

    plain = prepare([Entry(message={"role": "user", "content": f"plain {n}"}) for n in range(100)], TEMPLATE, 1)
    await conversations.append(target_at("default", conversation), plain, **APPEND)

    page = await conversations.reader.page(target_at("default", conversation), 11, 110)
    assert (len(page.messages), page.grounding, page.metadata) == (100, {}, {})
    again = prepare([Entry(message={"role": "user", "content": "more"})], TEMPLATE, 1)
    await conversations.append(target_at("default", conversation), again, **APPEND)
    assert server.hlen(f"sash:{{default/{conversation}}}:metadata") == 10
    assert len(await texts_of(conversations, "default", conversation)) == 111


async def test_a_rewind_that_stopped_is_finished_by_its_retry(
    conversations: Conversations, conversation: str, server: Any
) -> None:
    """A repeated rewind whose first run ended early drops the documents and metadata that the first run left."""
    etag = await fill(conversations, conversation, 2500)
    rewound = await cut(conversations, conversation, etag, 10, 2500)
    histories = Histories(conversations._client, conversations)
    how = {"life": life_of(etag), "if_match": etag, "now_ms": 2}
    again = await histories.rewind(target_at("default", conversation), 10, **how, token="t")
    assert again.etag == rewound.etag
    names = [f"sash:{{default/{conversation}}}:{part}" for part in ("metadata", "grounding")]
    assert [server.hlen(name) for name in names] == [10, 10]


@pytest.mark.nightly
async def test_no_script_keeps_the_store_long(tmp_path: Any) -> None:
    """No script takes 20 ms while 200,000 messages are staged, read, rewound and erased."""
    with (
        EmbeddedStore(tmp_path, fsync="everysec") as own,
        redis.Redis.from_url(own.url, decode_responses=True) as admin,
    ):
        admin.config_set("slowlog-log-slower-than", SLOW_MILLISECONDS * 1000)
        async with opened(own.url) as conversations:
            histories = Histories(conversations._client, conversations)
            staging = Staging(
                conversations._client, target_at("default", "long"), token="t", conversations=conversations
            )
            for _ in range(1000):
                await staging.add(noted(200, "said"))
            await staging.publish(settings=b"{}", version=1, created_ms=1, updated_ms=1, ttl_ms=None, summary=None)
            life = (await conversations.reader.get(target_at("default", "long"))).life
            await conversations.reader.tails.read(target_at("default", "long"), Reach(10**9))
            how = {"life": life, "if_match": "", "now_ms": 1}
            for place, to_seq in enumerate((100_000, 10)):
                await histories.rewind(target_at("default", "long"), to_seq, **how, token=str(place))
            await conversations.erase(target_at("default", "long"))
        slow = [(str(entry["command"])[:60], entry["duration"] / 1000) for entry in admin.slowlog_get(100)]
        assert slow == []


async def test_the_loop_is_free_while_a_long_window_is_made(conversations: Conversations, conversation: str) -> None:
    """The event loop keeps turning while the window of 5,000 messages is made, because a thread makes it."""
    from sash.core.law.records.parameters import WindowQuery  # noqa: PLC0415
    from sash.store.data.columns import Columns  # noqa: PLC0415
    from sash.store.data.indexing import Index  # noqa: PLC0415
    from sash.store.data.kept_models import KeptModels  # noqa: PLC0415
    from sash.store.data.usage import Calibrations  # noqa: PLC0415
    from sash.windows.model_rules import ModelRules  # noqa: PLC0415
    from sash.windows.recaller import Recaller  # noqa: PLC0415
    from sash.windows.stored import Windows  # noqa: PLC0415
    from sash.windows.vocabulary_counts import Counts  # noqa: PLC0415

    await fill(conversations, conversation, 5000)
    counts = Counts(conversations.reader, Columns(conversations._client), conversations.media)
    index = Index(conversations._client, conversations.reader, conversations.data_keys)
    recaller = Recaller(conversations.reader, index, counts)
    rules = ModelRules(KeptModels(conversations._client), {})
    windows = Windows(conversations, Calibrations(conversations._client), counts, {}, recaller, rules)
    query = WindowQuery(model="gpt-4.1", explain=True, overflow="skip")
    turns, busy = 0, True

    async def count() -> None:
        nonlocal turns
        while busy:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    started = time.perf_counter()
    await windows.read(target_at("default", conversation), query)
    busy = False
    await counting
    assert turns > 200, f"{turns} turns of the loop in {time.perf_counter() - started:.2f} s"
