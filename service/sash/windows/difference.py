"""What changed between two windows of one conversation, message by message, and where a provider's prompt cache broke."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sash.core.counts.models.families import ROLES
from sash.core.law.records.figures import WindowTokens
from sash.core.law.render import sent_bodies
from sash.core.providers import PROVIDERS
from sash.core.providers.openai.server_mends import whole_body
from sash.windows.answer import Made
from sash.windows.window_costs import WindowCosts

MessageChange = Annotated[
    Literal["added", "left_out", "changed", "moved"],
    Meta(
        title="MessageChange",
        description="Whether only the later window has a message (`added`) or only the earlier one (`left_out`), or both, "
        "with other texts (`changed`) or at another place among the others (`moved`).",
    ),
]
_MARKS = frozenset().union(*(provider.cache_marks for provider in PROVIDERS.values()))
"""Members that are no part of what a cache keeps."""


class ComparedWindow(msgspec.Struct, frozen=True):
    """One of two windows."""

    receipt: str
    version: int | None
    model: str
    format: str
    tokens: WindowTokens


class ChangedMessage(msgspec.Struct, frozen=True):
    """A message that differs, with its tokens in each window; null for a window without it."""

    seq: int
    role: str
    change: MessageChange
    tokens_from: int | None
    tokens_to: int | None


class CacheBreak(msgspec.Struct, frozen=True):
    """The first place where the later request differs from the earlier one. A provider's cache can serve what is before it.

    ``is_broken`` is false if the later request begins with all of the earlier one.
    """

    is_broken: bool
    part: Annotated[
        str | None,
        Meta(
            description="The request's first member that differs, such as `tools` or `messages`; or `model`, `format`."
        ),
    ]
    message: Annotated[
        int | None, Meta(description="The first message in it that differs, from 0; null without messages.")
    ]
    byte: Annotated[int | None, Meta(description="The first byte of it that differs, as JSON.")]
    seq: Annotated[int | None, Meta(description="The stored message that this is, if it is one.")]
    tokens_in_common: Annotated[int, Meta(description="Tokens before the first message, or part, that differs.")]


class WindowDifference(msgspec.Struct, frozen=True, rename={"earlier": "from", "later": "to"}):
    """What changed from one window to another."""

    conversation_id: str
    earlier: ComparedWindow
    later: ComparedWindow
    parts: Annotated[
        list[str],
        Meta(
            description="Parts beside the messages that differ: `system`, `few_shots`, `tools`, `tool_choice`, `summary`, "
            "`note`, `recalled` (as a block)."
        ),
    ]
    messages: Annotated[list[ChangedMessage], Meta(description="The messages that differ, by ascending seq.")]
    unchanged: Annotated[int, Meta(description="The number of messages that are the same in both.")]
    cache: CacheBreak


class _Sent(msgspec.Struct, frozen=True):
    """What a window sends: its messages' seqs in their order, with their texts, roles and tokens by seq."""

    seqs: Sequence[int]
    texts: Mapping[int, bytes]
    roles: Mapping[int, str]
    costs: WindowCosts


def difference(conversation: str, earlier: Made, later: Made) -> WindowDifference:
    """What changed from the earlier window to the later one."""
    one, other = _sent(earlier), _sent(later)
    moved = _moved(one.seqs, other.seqs)
    changed: list[ChangedMessage] = []
    for seq in sorted(one.texts.keys() | other.texts.keys()):
        change = _change(seq, one, other, moved)
        if change is not None:
            before = one.costs.cost(seq) if seq in one.texts else None
            after = other.costs.cost(seq) if seq in other.texts else None
            role = (other if seq in other.roles else one).roles[seq]
            changed.append(ChangedMessage(seq, role, change, before, after))
    had, has = _parts(earlier), _parts(later)
    parts = [name for name in had if had[name] != has[name]]
    gone = sum(each.change == "left_out" for each in changed)
    return WindowDifference(
        conversation_id=conversation,
        earlier=_compared(earlier),
        later=_compared(later),
        parts=parts,
        messages=changed,
        unchanged=len(one.texts) - gone - sum(each.change in ("changed", "moved") for each in changed),
        cache=_break(earlier, later, one, other, parts),
    )


def _compared(made: Made) -> ComparedWindow:
    head = made.head
    return ComparedWindow(made.receipt.decode(), head.version, head.model, head.format, head.tokens)


def _change(seq: int, one: _Sent, other: _Sent, moved: set[int]) -> MessageChange | None:
    if seq not in one.texts:
        return "added"
    if seq not in other.texts:
        return "left_out"
    if one.texts[seq] != other.texts[seq]:
        return "changed"
    return "moved" if seq in moved else None


def _moved(one: Sequence[int], other: Sequence[int]) -> set[int]:
    """The seqs that both have, but not in one order: as few as possible."""
    common = set(one) & set(other)
    before, after = [seq for seq in one if seq in common], [seq for seq in other if seq in common]
    if before == after:
        return set()
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return common - {before[block.a + step] for block in blocks for step in range(block.size)}


def _sent(made: Made) -> _Sent:
    window, history = made.window, made.history
    grounding = {seq: source.grounding for seq, source in made.documents.sources.items()}
    bodies = sent_bodies(window, made.bodies, grounding)
    texts = {
        seq: b"".join((whole_body(body), *window.lines.get(seq, ())))
        for seq, body in zip(window.seqs, bodies, strict=True)
    }
    roles = {seq: ROLES[history.records.roles[row]] for seq, row in zip(window.seqs, window.rows, strict=True)}
    return _Sent(window.seqs, texts, roles, WindowCosts(window, history, made.asked.plan.model))


def _parts(made: Made) -> dict[str, Any]:
    """What a window has beside messages, by name."""
    parts, window = made.asked.plan.parts, made.window
    summary, recalled = window.summary, window.recalled
    return {
        "system": parts.sent_system,
        "few_shots": parts.sent_few_shots,
        "tools": msgspec.json.encode(parts.tools),
        "tool_choice": msgspec.json.encode(parts.tool_choice),
        "summary": summary and (summary.text, summary.compaction),
        "note": window.note,
        "recalled": recalled and recalled.block,
    }


def _break(earlier: Made, later: Made, one: _Sent, other: _Sent, parts: Sequence[str]) -> CacheBreak:
    """Where a cache of the earlier request ends in the later one. Definitions of tools come first in every prompt."""
    for name in ("model", "format"):
        if getattr(earlier.head, name) != getattr(later.head, name):
            return _broken(name)
    listed = PROVIDERS[later.head.format].shape.messages
    before, after = _request(earlier), _request(later)
    names = sorted((before.keys() | after.keys()) - {listed}, key=lambda name: ("tool" not in name, name))
    for name in names:
        if before.get(name) != after.get(name):
            place = _first_difference(before.get(name), after.get(name))
            common = 0 if "tool" in name else later.window.tokens.tools
            return _broken(name, byte=place, tokens=common)
    old, new = before.get(listed, []), after.get(listed, [])
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    if same == len(old):
        return msgspec.structs.replace(_broken(None, tokens=earlier.window.tokens.total), is_broken=False)
    place = _first_difference(old[same], new[same] if same < len(new) else None)
    pairs = zip(one.seqs, other.seqs, strict=False)
    count = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1] and one.texts[pair[0]] == other.texts[pair[1]], pairs)
    )
    is_fixed = not set(parts) & {"system", "few_shots", "summary", "note"}
    seq = other.seqs[count] if is_fixed and count < len(other.seqs) else None
    common = other.costs.up_to(count) if is_fixed else later.window.tokens.tools
    return _broken(listed, message=same, byte=place, seq=seq, tokens=common)


def _broken(
    part: str | None, *, message: int | None = None, byte: int | None = None, seq: int | None = None, tokens: int = 0
) -> CacheBreak:
    return CacheBreak(is_broken=True, part=part, message=message, byte=byte, seq=seq, tokens_in_common=tokens)


def _request(made: Made) -> dict[str, Any]:
    """The request without marks for a cache."""
    request: dict[str, Any] = _bare(msgspec.json.decode(made.body)["request"])
    return request


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bare(each) for name, each in value.items() if name not in _MARKS}
    if isinstance(value, list):
        return [
            _bare(each) for each in value if not (isinstance(each, dict) and len(each) == 1 and each.keys() <= _MARKS)
        ]
    return value


def _first_difference(before: Any, after: Any) -> int:
    """The first byte that differs in the JSON of both."""
    one, other = msgspec.json.encode(before), msgspec.json.encode(after)
    differing = (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(one), len(other)))
