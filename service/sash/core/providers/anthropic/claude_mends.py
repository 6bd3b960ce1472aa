"""What Anthropic's Messages refuse, and what is sent in its place: the mends of each message that came in this form.

All of it is refused with 400 for the whole request, so one such block would end a conversation.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from sash.core.providers.anthropic.claude_titles import NESTED_MARK, TITLE, cited, marked_outside, titled
from sash.core.providers.destinations.destination import meet
from sash.core.providers.messages.call_inputs import BROKEN_ARGUMENTS, with_object
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.pieces import data_url, file_part
from sash.core.providers.writing.media import Media
from sash.core.providers.writing.media_types import (
    MEDIA_TYPE,
    PDF,
    PDF_BEGINS,
    UNTAKEN,
    USUAL_PICTURES,
    Takes,
    is_web,
    picture_type,
)
from sash.core.providers.writing.native_messages import NativeMessages
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

UNSIGNED_THINKING: Final = Mend(
    name="unsigned_thinking",
    refused="A thinking block without its signature, or a redacted one without its data; one that another maker signed in "
    "this form, such as MiniMax with a digest; by Claude alone",
    sent="The message without the block",
    evidence="'thinking.signature: Field required' (WordPress/ai-provider-for-anthropic 27; extended-thinking); 'Invalid "
    "`signature` in `thinking` block' behind another maker's replies (decolua/9router 922, NanmiCoder/cc-haha 982, "
    "caozhiyuan/copilot-api 78)",
)
LAST_THINKING: Final = Mend(
    name="last_thinking",
    refused="A thinking block at the end of an assistant's message, as an interrupted reply has it; by Claude alone",
    sent="The message without the block",
    evidence="'The final block in an assistant message cannot be `thinking`' (tailcallhq/forgecode 2107, 3071)",
)
NULL_MEMBER: Final = Mend(
    name="null_member",
    is_free=True,
    refused="A tool result with `is_error` that is null",
    sent="The result without `is_error`",
    evidence="anthropic.types.ToolResultBlockParam: `is_error` is a bool; 'Input should be a valid boolean'",
)
OF_BLOCKS: Final = (
    SYSTEM_ROLE,
    BLANK_TEXT,
    UNSIGNED_THINKING,
    LAST_THINKING,
    CALL_ID,
    CALL_NAME,
    RESULTS_FIRST,
    FAILED_WITHOUT_WORDS,
    FAILED_WITH_MEDIA,
    MEDIA_TYPE,
    UNTAKEN,
    BROKEN_ARGUMENTS,
    NULL_MEMBER,
    TITLE,
    NESTED_MARK,
)
CLAUDES_MEDIA: Final = Takes(
    pictures=USUAL_PICTURES, files=frozenset({PDF}), references=("file_", "https://", "http://")
)
"""What Claude takes. A text file is a document of text. A sound has no place in a block."""

_WITHOUT_SYSTEM_ROLE: Final = re.compile(r"claude-(?:v?[123]\b|instant|(?:opus|sonnet|haiku)-(?:3|4(?!-[89]\b)))")
"""Models that take system texts in ``system`` alone."""
FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]")
"""Characters that ids and names may not have."""
LONGEST_NAME: Final = 128
_DIGEST: Final = re.compile(r"[0-9a-f]{32,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
NO_WORDS: Final = {"type": "text", "text": NOTHING_SAID}
"""The block that stands for words where there are none. Each request gets a copy: its blocks belong to it alone."""


def fit_name(name: str) -> str:
    """Return a called tool's name in the alphabet of names.

    >>> fit_name("files.read all")
    'files_read_all'
    """
    return FOREIGN.sub("_", name)[:LONGEST_NAME]


def called_name(name: str, writing: RequestWriting) -> str:
    """Return a called tool's name as the destination takes it."""
    is_plain = is_claude(writing.model) or "tool_names" in meet("anthropic", writing.maker, writing.model).values
    return fit_name(name) if is_plain else name


def takes_system_role(model: str) -> bool:
    """Return whether a model takes system messages among the others.

    >>> [takes_system_role(name) for name in ("claude-sonnet-4-5", "claude-opus-4-20250514", "claude-opus-4-8")]
    [False, False, True]
    """
    return "claude" in model and not _WITHOUT_SYSTEM_ROLE.search(model)


def is_claude(model: str) -> bool:
    """Return whether a model is Claude. Others that take this form do not sign their thinking, and want it back."""
    return not model or "claude" in model.lower()


def is_signed(block: Block) -> bool:
    """Return whether a block is no thinking, or has what proves that it is Claude's."""
    seal = {"thinking": "signature", "redacted_thinking": "data"}.get(str(block.get("type")))
    return seal is None or is_claudes(block.get(seal))


def is_claudes(signature: object) -> bool:
    """Return whether a signature may be Claude's: it is in base64. Others write a digest or an identifier in its place.

    >>> is_claudes("EqoBCkgIARABGAIiQL2U"), is_claudes("8a5e1f0c-9d1b-4c1e-8f3e-2b7d8c9e0f1a"), is_claudes("")
    (True, False, False)
    """
    return isinstance(signature, str) and bool(signature) and not _DIGEST.fullmatch(signature)


def mended(whole: NativeMessages, writing: RequestWriting) -> NativeMessages:
    """Return a message that came in this form as it is accepted. What needs no mend stays as it came."""
    ids = iter(whole.ids)
    made = (_message(message, ids, whole, writing) for message in whole.messages)
    messages = [message for message in made if message["content"] or message["role"] == "assistant"]
    if whole.at and not any(_is_result(block) for message in messages for block in message["content"]):
        writing.mends.add(RESULTS_FIRST, whole.seq)  # it stood before a result
    return msgspec.structs.replace(whole, messages=messages, at=())


def _message(message: Block, ids: Iterator[str], whole: NativeMessages, writing: RequestWriting) -> Block:
    content, role = message["content"], message["role"]
    if isinstance(content, str):
        if content.strip():
            return message
        blocks: Sequence[Block] = ()
        writing.mends.add(BLANK_TEXT, whole.seq)
    else:
        blocks = [left for block in content for left in _block(block, ids, whole.seq, writing)]
        if blocks and blocks == content:
            return message
    if not blocks and whole.pieces == 1:
        writing.mends.add(BLANK_TEXT, whole.seq)
    if not blocks and role == "user" and whole.pieces == 1:
        blocks = [dict(NO_WORDS)]
    return {**message, "content": list(blocks)}


def _block(block: Block, ids: Iterator[str], seq: int, writing: RequestWriting) -> Iterator[Block]:
    """Yield the block as it is accepted; nothing where it is left out."""
    match block:
        case {"type": "text", "text": str(text)} if not text.strip():
            writing.mends.add(BLANK_TEXT, seq)
        case {"type": "compaction", "content": str(words)} if not words.strip():
            writing.mends.add(BLANK_TEXT, seq)
        case {"type": "thinking" | "redacted_thinking"} if not is_signed(block) and is_claude(writing.model):
            writing.mends.add(UNSIGNED_THINKING, seq)
        case {"type": "tool_use", "id": given, "name": str(name)}:
            yield with_object(_use(block, next(ids, given), name, seq, writing), "input", seq, writing.mends)
        case {"type": "tool_result"}:
            yield _result(block, seq, writing)
        case {"type": "text" | "image" | "document"}:
            yield _part(block, seq, writing)
        case {"type": "server_tool_use" | "mcp_tool_use"}:
            yield with_object(block, "input", seq, writing.mends)
        case _:
            yield block


def _part(block: Block, seq: int, writing: RequestWriting) -> Block:
    """Return a text, a picture or a document as Claude takes it; another block as it came."""
    if block.get("type") == "text":
        return cited(block, seq, writing)
    source = block.get("source")
    if not isinstance(source, dict) or block.get("type") not in ("image", "document"):
        return block
    if block["type"] == "document":
        block = titled(block, seq, writing)
    if source.get("type") == "content" and isinstance(held := source.get("content"), list):
        inner = [_part(each, seq, writing) for each in held]
        block = block if inner == held else {**block, "source": {**source, "content": inner}}
        return marked_outside(block, inner, seq, writing)
    found = (_image if block["type"] == "image" else _document)(block, source)
    if found != block:
        is_typed = found.get("type") == block["type"] and found["source"]["type"] == "base64"
        writing.mends.add(MEDIA_TYPE if is_typed else UNTAKEN, seq)
    return found


def _image(block: Block, source: Block) -> Block:
    """Return a picture with the media type of its bytes, or its line."""
    match source:
        case {"type": "url", "url": str(url)} if not is_web(url):
            return _line(block, {"type": "image_url", "image_url": {"url": url}})
        case {"type": "base64", "media_type": str(told), "data": str(data)}:
            found = picture_type(told, data)
            if not data or CLAUDES_MEDIA.refuses_picture(found):
                return _line(block, {"type": "image_url", "image_url": {"url": data_url(told, data)}})
            return block if found == told else {**block, "source": {**source, "media_type": found}}
    return block


def _document(block: Block, source: Block) -> Block:
    """Return a document in base64 as a PDF or as a text, or its line."""
    match source:
        case {"type": "base64", "media_type": str(told), "data": str(data)} if not data or told != PDF:
            if data.startswith(PDF_BEGINS):
                return {**block, "source": {**source, "media_type": PDF}}
            text = Media(told, data).text() if told.startswith("text/") else None
            if text and text.strip():
                return {**block, "source": {"type": "text", "media_type": "text/plain", "data": text}}
            title = block.get("title")
            name = title if isinstance(title, str) else None
            return _line(block, file_part(filename=name, file_data=data_url(told, data)))
    return block


def _line(block: Block, part: Block) -> Block:
    """The line of a picture or a file, with the mark for the prompt cache that it had."""
    marked = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
    return {"type": "text", "text": media_line(part), **marked}


def _use(block: Block, identity: str, name: str, seq: int, writing: RequestWriting) -> Block:
    fit = called_name(name, writing)
    if fit != name:
        writing.mends.add(CALL_NAME, seq)
    return block if (identity, fit) == (block["id"], name) else {**block, "id": identity, "name": fit}


def _result(block: Block, seq: int, writing: RequestWriting) -> Block:
    content, changed = block.get("content"), block
    if isinstance(content, list):
        left = [each for each in content if not (each.get("type") == "text" and not str(each.get("text", "")).strip())]
        if len(left) < len(content):
            writing.mends.add(BLANK_TEXT, seq)
        left = [_part(each, seq, writing) for each in left]
        if left != content:
            changed = {**block, "content": left}
    elif isinstance(content, str):
        if content and not content.strip():
            writing.mends.add(BLANK_TEXT, seq)
            changed = {**block, "content": ""}
    elif "content" in block:  # null is no content
        changed = {name: value for name, value in block.items() if name != "content"}
    if mend := _of_failure(changed.get("is_error", False), changed.get("content"), writing):
        writing.mends.add(mend, seq)
        changed = {name: value for name, value in changed.items() if name != "is_error"}
    return changed


def _of_failure(failed: object, content: object, writing: RequestWriting) -> Mend | None:
    """The mend of a result whose ``is_error`` is refused beside its content."""
    if failed is None:
        return NULL_MEMBER
    if failed and not content:
        return FAILED_WITHOUT_WORDS
    has_media = isinstance(content, list) and any(each.get("type") != "text" for each in content)
    return FAILED_WITH_MEDIA if failed and has_media and is_claude(writing.model) else None


def _is_result(block: Block) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"
