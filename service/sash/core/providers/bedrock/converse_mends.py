"""What Bedrock's Converse refuses, and what is sent in its place.

Bedrock answers ValidationException, 400, to the whole request, before the model or by the model's own rules.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sash.core.providers.anthropic.claude_mends import is_claude, is_claudes
from sash.core.providers.bedrock.converse_files import DOCUMENT_NAME, KINDS, document_text, read_media
from sash.core.providers.messages.call_inputs import BROKEN_ARGUMENTS
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.pieces import to_json
from sash.core.providers.writing.media_types import MEDIA_TYPE, UNTAKEN
from sash.core.providers.writing.shared_mends import (
    BLANK_TEXT,
    CALL_ID,
    CALL_NAME,
    FAILED_WITH_MEDIA,
    FAILED_WITHOUT_WORDS,
    RESULTS_FIRST,
    SYSTEM_ROLE,
)
from sash.core.providers.writing.turns import NOTHING_SAID, Block, RequestWriting

RESULT_JSON: Final = Mend(
    name="result_json",
    refused="A tool result's `json` that is no object, such as a list",
    sent="A text with the JSON",
    evidence="'The format of the value at messages.28.content.0.toolResult.content.0.json is invalid. Provide a json object "
    "for the field and try again.' (deepset-ai/haystack-core-integrations 3766, aws/aws-sdk-js-v3 7330)",
)
UNSIGNED_REASONING: Final = Mend(
    name="unsigned_reasoning",
    refused="Reasoning without a signature; all reasoning for models other than Claude, also their own",
    sent="The message without the block",
    evidence="'User messages cannot contain reasoning content. Please remove the reasoning content and try again.' from "
    "Nova (can1357/oh-my-pi 9086); 'thinking.signature: Field required' from Claude",
)
LAST_REASONING: Final = Mend(
    name="last_reasoning",
    refused="Reasoning at the end of an assistant's message, as an interrupted reply has it",
    sent="The message without the block",
    evidence="'This model does not support assistant message prefill' for a turn of reasoning alone, from Sonnet 5 on "
    "(NousResearch/hermes-agent 105780); 'The final block in an assistant message cannot be `thinking`'",
)
JOINED_TURNS: Final = Mend(
    name="joined_turns",
    is_free=True,
    refused="Neighbouring messages of one role",
    sent="One message with the blocks of all",
    evidence="'A conversation must alternate between user and assistant roles' (docs: Converse)",
)
REPLY_MEDIA: Final = Mend(
    name="reply_media",
    refused="A picture or a file in an assistant's message",
    sent="The message without it; of a document that is made of text, the text",
    evidence="'You can only include images and documents if the role is user' (docs: API_runtime_Message)",
)
DOCUMENT_ALONE: Final = Mend(
    name="document_alone",
    refused="A document in a message without a text",
    sent="`…` beside it; a document that is made of text is sent as its text",
    evidence="'If you include a ContentBlock with a document field in the array, you must also include a ContentBlock with "
    "a text field' (docs: API_runtime_Message)",
)
MANY_DOCUMENTS: Final = Mend(
    name="many_documents",
    refused="More than five documents in a request",
    sent="The newest five; of each other one its text, or a line that names it",
    evidence="'You can't include more than 5 documents in a request.' (aws-samples/generative-ai-use-cases 1685)",
)
UNDECLARED_TOOLS: Final = Mend(
    name="undeclared_tools",
    refused="Tool calls or results in a request without tools",
    sent="One tool, `no_tool`, which takes nothing and says that no tool can be called",
    evidence="'The toolConfig field must be defined when using toolUse and toolResult content blocks.' "
    "(langgenius/dify 16421, vxcontrol/pentagi 160)",
)
CACHE_POINTS: Final = Mend(
    name="cache_points",
    is_free=True,
    refused="More than four `cachePoint` in a request, one of an hour behind one of five minutes, one without a block "
    "before it or behind reasoning, one among tools for Nova, and any for a model without a prompt cache",
    sent="The newest four; with `cache=auto` Sash's own are among them. The others are left out",
    evidence="docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching; 'A maximum of 4 blocks with cache_control may be "
    "provided', from Claude",
)
OF_CONVERSE: Final = (
    SYSTEM_ROLE,
    BLANK_TEXT,
    JOINED_TURNS,
    RESULTS_FIRST,
    CALL_ID,
    CALL_NAME,
    BROKEN_ARGUMENTS,
    FAILED_WITHOUT_WORDS,
    FAILED_WITH_MEDIA,
    RESULT_JSON,
    UNDECLARED_TOOLS,
    UNSIGNED_REASONING,
    LAST_REASONING,
    REPLY_MEDIA,
    DOCUMENT_NAME,
    DOCUMENT_ALONE,
    MANY_DOCUMENTS,
    CACHE_POINTS,
    MEDIA_TYPE,
    UNTAKEN,
)

_WORDS: Final = ("text", "json", "cachePoint")
"""Blocks of a result that are sent to Claude as texts."""
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST: Final = 64
_MOST_DOCUMENTS: Final = 5


class Sent(NamedTuple):
    """A block that is sent, and the seq of its message."""

    seq: int
    block: Block


class SentTurn(NamedTuple):
    """What one message says. ``own``: it came in this form. ``follows``: it is a piece of the message before it."""

    role: str
    blocks: list[Sent]
    own: bool = False
    follows: bool = False


def fit(name: str) -> str:
    """Return an id or a name in Bedrock's alphabet and length.

    >>> fit("files.read all")
    'files_read_all'
    """
    return _FOREIGN.sub("_", name)[:_LONGEST]


def is_signed(block: Block) -> bool:
    """Whether reasoning has what proves that it is Claude's."""
    match block["reasoningContent"]:
        case {"reasoningText": {"signature": str(signature)}} if is_claudes(signature):
            return True
        case {"redactedContent": str(data)} if data:
            return True
    return False


def is_blank(block: Block) -> bool:
    """Whether a block is a text without a visible character, alone or with citations."""
    match block:
        case {"text": str(text)}:
            return not text.strip()
        case {"citationsContent": dict(cited)}:
            return not any(str(each.get("text") or "").strip() for each in cited.get("content") or ())
    return False


def line_in_place(block: Block) -> Block | None:
    """Return the line that tells a picture or a file; None for another block."""
    for kind in KINDS:
        if isinstance(body := block.get(kind), dict):
            part = read_media(kind, body) or {"type": kind}
            return {"text": document_text(body) if document_text(body).strip() else media_line(part)}
    return None


def result(found: Mapping[str, Any], seq: int, writing: RequestWriting) -> Block:
    """Return a tool result that came in this form as it is accepted."""
    content = found.get("content") or []
    left = [each for each in content if not is_blank(each)]
    changed = dict(found)
    if left != found.get("content"):
        writing.mends.add(BLANK_TEXT, seq)
        changed["content"] = left
    if any(map(_is_no_object, left)):
        writing.mends.add(RESULT_JSON, seq)
        changed["content"] = [{"text": to_json(each["json"])} if _is_no_object(each) else each for each in left]
    has_media = any(each.keys().isdisjoint(_WORDS) for each in left)
    if found.get("status") == "error" and (not left or (has_media and is_claude(writing.model))):
        writing.mends.add(FAILED_WITH_MEDIA if left else FAILED_WITHOUT_WORDS, seq)
        del changed["status"]
    return {"toolResult": changed}


def _is_no_object(block: Block) -> bool:
    return "json" in block and not isinstance(block["json"], dict)


# ---- the whole request


def in_order(turns: Iterable[SentTurn], writing: RequestWriting) -> list[SentTurn]:
    """Return turns of which each is of another role than the one before it, and has content that Bedrock takes."""
    made = [_ended(turn, writing) for turn in _joined(turns, writing)]
    return [_results_first(turn, writing) for turn in _joined((turn for turn in made if turn.blocks), writing)]


def _joined(turns: Iterable[SentTurn], writing: RequestWriting) -> list[SentTurn]:
    found: list[SentTurn] = []
    for turn in turns:
        if not (found and found[-1].role == turn.role):
            found.append(turn)
            continue
        before = found[-1]
        if (turn.own or before.own) and not turn.follows and turn.blocks:
            writing.mends.add(JOINED_TURNS, turn.blocks[0].seq)
            writing.mends.joined.add(turn.blocks[0].seq)
        found[-1] = SentTurn(turn.role, [*before.blocks, *turn.blocks], own=before.own or turn.own)
    return found


def _ended(turn: SentTurn, writing: RequestWriting) -> SentTurn:
    """Return an assistant's turn without reasoning at its end, and without cache points alone."""
    if turn.role != "assistant":
        return turn
    blocks = turn.blocks
    while blocks and ("reasoningContent" in (last := blocks[-1].block) or "cachePoint" in last):
        if "cachePoint" in last and not _ends_in_reasoning(blocks):
            break
        writing.mends.add(LAST_REASONING if "reasoningContent" in last else CACHE_POINTS, blocks[-1].seq)
        blocks = blocks[:-1]
    return turn if blocks is turn.blocks else turn._replace(blocks=blocks)


def _ends_in_reasoning(blocks: Sequence[Sent]) -> bool:
    before = next((each.block for each in reversed(blocks) if "cachePoint" not in each.block), None)
    return before is None or "reasoningContent" in before


def _results_first(turn: SentTurn, writing: RequestWriting) -> SentTurn:
    """Return the user's turn with its results before all else."""
    if turn.role != "user":
        return turn
    places = [place for place, each in enumerate(turn.blocks) if "toolResult" in each.block]
    if places == [*range(len(places))]:
        return turn
    late = [each for each in turn.blocks[: places[-1]] if "toolResult" not in each.block]
    for each in late:
        writing.mends.add(RESULTS_FIRST, each.seq)
    return turn._replace(blocks=sorted(turn.blocks, key=lambda each: "toolResult" not in each.block))


def tell_sent(turns: Iterable[SentTurn], writing: RequestWriting) -> None:
    """Note what is sent of each message, turn by turn."""
    for turn in turns:
        blocks: dict[int, list[Block]] = {}
        for seq, block in turn.blocks:
            if seq:  # the others are texts alone
                blocks.setdefault(seq, []).append(block)
        for seq, own in blocks.items():
            writing.mends.send(seq, {"role": turn.role, "content": own})


def with_documents(turns: list[SentTurn], writing: RequestWriting) -> list[SentTurn]:
    """Return the turns with five documents at most, none of them in a message without a text."""
    places = [id(block) for turn in turns for each in turn.blocks for block in _documents(each.block)]
    if not places:
        return turns
    told = set(places[:-_MOST_DOCUMENTS])
    found = []
    for turn in turns:
        blocks = [_with_lines(each, told, writing) for each in turn.blocks] if told else turn.blocks
        found.append(turn._replace(blocks=_beside_text(blocks, writing)))
    return found


def _documents(block: Block) -> Sequence[Block]:
    if "document" in block:
        return (block,)
    answer = block.get("toolResult")
    return [each for each in answer.get("content") or () if "document" in each] if isinstance(answer, dict) else ()


def _with_lines(sent: Sent, told: set[int], writing: RequestWriting) -> Sent:
    if not any(id(each) in told for each in _documents(sent.block)):
        return sent
    writing.mends.add(MANY_DOCUMENTS, sent.seq)
    if "document" in sent.block:
        return Sent(sent.seq, line_in_place(sent.block) or sent.block)
    answer = sent.block["toolResult"]
    content = [(line_in_place(each) or each) if id(each) in told else each for each in answer["content"]]
    return Sent(sent.seq, {"toolResult": {**answer, "content": content}})


def _beside_text(blocks: list[Sent], writing: RequestWriting) -> list[Sent]:
    alone = next((place for place, each in enumerate(blocks) if "document" in each.block), None)
    if alone is None or any("text" in each.block for each in blocks):
        return blocks
    sent = blocks[alone]
    writing.mends.add(DOCUMENT_ALONE, sent.seq)
    if text := document_text(sent.block["document"]).strip():
        return [*blocks[:alone], Sent(sent.seq, {"text": text}), *blocks[alone + 1 :]]
    return [*blocks, Sent(sent.seq, {"text": NOTHING_SAID})]


def without_media(sent: Sent, writing: RequestWriting) -> Iterator[Sent]:
    """Yield a block of the assistant's; of a document its text, and nothing of another picture or file."""
    kind = next((name for name in KINDS if isinstance(sent.block.get(name), dict)), None)
    if kind is None:
        yield sent
        return
    writing.mends.add(REPLY_MEDIA, sent.seq)
    text = document_text(sent.block[kind]).strip()
    if text:
        yield Sent(sent.seq, {"text": text})
