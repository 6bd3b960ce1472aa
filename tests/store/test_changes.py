"""What the store keeps of versions tells, from each version on, what came since, or that this is not known."""

from itertools import count
from typing import Any

from conftest import opened
from hypothesis import example, given
from hypothesis import strategies as st
from profiles import examples

from sash.core.chat.messages import Entry
from sash.core.law.documents.grounding import parse_template
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, encode_settings
from sash.store.data import read_scripts
from sash.store.data.changes import LINE, ChangeKind, changes_since
from sash.store.data.conversations import Conversations
from sash.store.data.entries import prepare
from sash.store.data.histories import Histories
from sash.store.data.layout import HISTORY, Target, target_at
from sash.store.data.redactions import Redactions
from sash.store.data.summaries import Summaries
from sash.store.redis.embedded import EmbeddedStore

_template = parse_template()
_numbers = count()
NOW = 1_700_000_000_000
STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("append"), st.just(1)),
    st.tuples(st.sampled_from(["rewind", "redact", "summarize", "text"]), st.integers(0, 9)),
)


class Story:
    """A conversation, and what each of its versions should tell: the seqs by the ids of their messages, after it."""

    def __init__(self, conversations: Conversations, histories: Histories, target: Target) -> None:
        self.conversations = conversations
        self.histories = histories
        self.redactions = Redactions(conversations._client, conversations)
        self.summaries = Summaries(conversations._client, conversations)
        self.target = target
        self.after: list[list[int]] = [[]]
        """The names of the messages after each version, from version 0 on."""
        self.names = count()
        self.draft: int | None = None

    async def append(self, *names: int, status: str | None = None, text: str = "x") -> None:
        entries = [
            Entry(message={"role": "assistant", "content": text}, id=f"m-{name}", status=status)  # type: ignore[arg-type]
            for name in names
        ]
        reply = await self.conversations.append(
            self.target, prepare(entries, _template, NOW), settings=b"{}", if_match="", now_ms=NOW
        )
        messages = list(self.after[-1])
        self.note(reply.version, messages + [name for name in names if name not in messages])

    def note(self, version: int, messages: list[int]) -> None:
        """Note the messages after a version, unless it is not a new one."""
        if version == len(self.after):
            self.after.append(messages)

    async def do(self, kind: str, number: int) -> None:
        state = await self.conversations.reader.get(self.target)
        change: Any = {"life": state.life, "if_match": "", "now_ms": NOW, "token": f"t{next(self.names)}"}
        messages = list(self.after[-1])
        if kind == "append":
            await self.append(*(next(self.names) for _ in range(number)))
        elif kind == "text":
            if self.draft is None or self.draft not in messages:
                self.draft = next(self.names)
            await self.append(self.draft, status="in_progress", text="x" * next(self.names))
        elif kind == "rewind":
            written = await self.histories.rewind(self.target, min(number, state.length), **change)
            self.note(written.version, messages[:number])
        elif kind == "redact" and state.length:
            redacted = await self.redactions.redact(self.target, 1 + number % state.length, **change)
            self.note(redacted.version, messages)
        elif kind == "summarize":
            put = await self.summaries.put(self.target, None, **change)
            self.note(put.version, messages)


@examples(0.6)
@given(st.integers(0, 1), st.lists(STEP, min_size=1, max_size=40))
@example(0, [step for seq in range(30) for step in (("append", 2), ("redact", seq))])  # more lines than are kept
async def test_changes_lead_from_each_version_to_the_last(
    store: EmbeddedStore, is_created: int, steps: list[tuple[str, int]]
) -> None:
    """Whatever was done, the changes after a version make the history of the last; the first ones are a part of them."""
    async with opened(store.url) as conversations:
        client = conversations._client
        target = target_at("changes", f"c{next(_numbers)}")
        story = Story(conversations, Histories(client, conversations), target)
        if is_created:
            await conversations.create(
                target, encode_settings(ConversationSettings()), ttl_ms=None, now_ms=NOW, token="t"
            )
            story.after.append([])
        else:
            await story.append(next(story.names))
        for step in steps:
            await story.do(*step)
        reply = await client.run(read_scripts.read_changes(target.keys[:HISTORY], first_seq=1, limit=0))
        version = int(reply.version)
        assert version == len(story.after) - 1
        known = 0
        for after in range(version + 1):
            whole = changes_since(after, version, reply.length, reply.changes or b"")
            if whole is None:
                assert known == 0
                continue
            known += 1
            changes = whole.found
            assert (whole.is_all, whole.length) == (True, reply.length)
            for limit in range(len(changes) + 1):
                part = changes_since(after, version, reply.length, reply.changes or b"", limit)
                assert part is not None
                assert (part.found, part.is_all) == (changes[:limit], limit == len(changes))
                forgotten = [each.to_seq for each in changes[limit:] if each.to_seq is not None]
                assert part.length == min([reply.length, *forgotten])
            assert [each.version for each in changes] == sorted({each.version for each in changes})
            messages = list(story.after[after])
            for change in changes:
                if change.to_seq is not None:
                    messages = messages[: change.to_seq]
                added = range(change.first_seq, change.last_seq + 1)
                assert [*added] == [*range(len(messages) + 1, len(messages) + 1 + len(added))]
                messages += story.after[change.version][len(messages) : len(messages) + len(added)]
                assert len(messages) == len(story.after[change.version]), change
            told = {each.version for each in changes}
            texts = [each.version for each in changes if each.kinds == ChangeKind.REPLACED]
            for each in range(after + 1, version + 1):
                assert each in told or any(text > each for text in texts)
            assert len(messages) == reply.length
        assert known >= min(version + 1 - is_created, 48)
        assert len(reply.changes or b"") <= 48 * LINE.size
        await conversations.erase(target)
