"""What servers of OpenAI's form refuse that OpenAI takes, and what is sent in its place to models of other makers.

What may be refused is seen by a message's role and numbers, so that nothing of it is stored. Only such messages are decoded.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, groupby
from typing import Any, Final

import msgspec

from sash.core.chat.calls import INVALID, arguments_object
from sash.core.providers.destinations.destination import evidence_of, meet
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.messages.call_inputs import BROKEN_ARGUMENTS
from sash.core.providers.messages.mends import Mend, Mends
from sash.core.providers.messages.owed_reasoning import BLANK, NO_REASONING
from sash.core.providers.messages.reasoning_members import CONTENT, PLAIN, plain_text
from sash.core.providers.messages.words_said import has_word
from sash.core.providers.writing.shared_mends import EMPTY_QUESTION
from sash.core.providers.writing.turns import NOTHING_SAID, SYSTEM_ROLES

Message = dict[str, Any]

DEVELOPER_ROLE: Final = Mend(
    name="developer_role",
    is_free=True,
    refused="The role `developer`, by DeepSeek, Mistral, Alibaba, Moonshot, Z.ai and MiniMax",
    sent="The message with the role `system`",
    evidence=evidence_of("roles"),
)
EMPTY_REPLY: Final = Mend(
    name="empty_reply",
    refused="An assistant's message without a text and without calls, by servers of other makers' models",
    sent="The request without the message",
    evidence=evidence_of("empty_reply"),
)
SHORT_ID: Final = Mend(
    name="short_id",
    is_free=True,
    refused="An id of a call that is not of nine letters and digits, by Mistral",
    sent="Nine letters and digits that follow from the id, alike in the call and in its result",
    evidence=evidence_of("call_ids", "nine"),
)
SYSTEM_FIRST: Final = Mend(
    name="system_first",
    refused="A system message behind another message, by Mistral and Perplexity; also behind a system message, by MiniMax "
    "and by templates of Qwen 3.5 and later, and of Gemma",
    sent="System messages at the beginning; as one message, with a blank line between their texts, where one alone is taken",
    evidence=evidence_of("system"),
)
ALTERNATING: Final = Mend(
    name="alternating",
    refused="Neighbouring messages of one role, by templates of Gemma and of Mistral's weights, and by Perplexity; by these "
    "templates also a question behind a result, as where the user stopped the reply",
    sent="One message with the texts of both, with a blank line between them; a reply of `…` between result and question",
    evidence=evidence_of("alternation"),
)
USER_FIRST: Final = Mend(
    name="user_first",
    refused="A request that begins with the assistant, such as with a greeting, by templates of Gemma and of Mistral's "
    "weights, and by Perplexity; one without a message of the user's, by Z.ai and by templates of Qwen 3.5 and later",
    sent="Before it a message of the user's: `…`",
    evidence=evidence_of("beginning"),
)
REASONING_MEMBER: Final = Mend(
    name="reasoning_member",
    refused="Reasoning that came as `reasoning` or `reasoning_details`, as OpenRouter writes it, by Kimi, DeepSeek and "
    "Fireworks; OpenRouter takes `reasoning_details`. By vLLM `reasoning` or `reasoning_content`, as its version is",
    sent="Its text as `reasoning_content`; to vLLM as both",
    evidence=evidence_of("reasoning_in"),
)
SPEAKER: Final = Mend(
    name="speaker",
    refused="`name` of a message that is not the user's, by Grok and MiniMax",
    sent="The message without it",
    evidence=evidence_of("speakers"),
)
ONE_TEXT: Final = Mend(
    name="one_text",
    refused="A content as a list of texts alone, by DeepSeek; a system message's, by Groq and Cerebras",
    sent="The texts of the parts as one",
    evidence=evidence_of("texts"),
)
SERVER_MENDS: Final = (
    ALTERNATING,
    DEVELOPER_ROLE,
    BROKEN_ARGUMENTS,
    EMPTY_REPLY,
    EMPTY_QUESTION,
    NO_REASONING,
    ONE_TEXT,
    REASONING_MEMBER,
    SHORT_ID,
    SPEAKER,
    SYSTEM_FIRST,
    USER_FIRST,
)

DEVELOPER, ARGUMENTS, EMPTY, IDENTITY, SILENT, OWING, PARTS, NAMED, THOUGHTS, DETAILS, SINGLE, TWICE, APART, TEXTS = (
    1 << bit for bit in range(16, 30)
)
"""What may be refused in a message, as bits above those of ``chat_mends.oddities``."""
_CHAT: Final = "openai"
_BITS: Final[dict[Kind, int]] = {
    "roles": DEVELOPER,
    "arguments": ARGUMENTS,
    "empty_reply": EMPTY,
    "empty_question": SILENT,
    "speakers": NAMED,
    "calls": SINGLE,
    "beside_calls": APART,
}
"""The bit of each kind of fact that is about single messages. ``SINGLE`` is about a message and its results, ``APART`` about
one that is sent as several."""
_THOUGHTS: Final = {"reasoning_content": THOUGHTS, "details": DETAILS, "both": TWICE}
"""The bit of each value of ``reasoning_in``."""
_TEXTS: Final = {"system": PARTS, "all": TEXTS}
"""The bit of each value of ``texts``."""
LISTS: Final = PARTS | TEXTS
"""The bits of contents that are lists, as their bodies tell."""
WORDLESS: Final = EMPTY | SILENT
"""The bits of messages that say nothing, or nothing once other changes are made."""
_JOINED_ROLES: Final = ("user", "assistant")
OPENING: Final = msgspec.json.encode({"role": "user", "content": NOTHING_SAID})
UNSAID: Final = {"role": "assistant", "content": NOTHING_SAID}
_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")
_LIST: Final = b'"content":['
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_server(maker: str, model: str) -> Mapping[Kind, str]:
    """Return what the destination of chat completions to a model refuses and wants."""
    return meet(_CHAT, maker, model).values


@lru_cache(maxsize=1024)
def refused_by(maker: str, model: str) -> int:
    """Return what servers of a maker's model refuse in single messages, as bits; 0 for OpenAI's own."""
    values = to_server(maker, model)
    owing = OWING if values.get("reasoning") == "filled" else 0
    thoughts = _THOUGHTS.get(values.get("reasoning_in", ""), 0)
    texts = _TEXTS.get(values.get("texts", ""), 0)
    short = IDENTITY if values.get("call_ids") == "nine" else 0
    return sum(bit for kind, bit in _BITS.items() if kind in values) | owing | thoughts | texts | short


def with_system_first(bodies: list[Any], maker: str, model: str, mends: Mends) -> list[Any]:
    """Return messages, as JSON, as servers of the model take them: with system messages at the beginning, or one that has
    the texts of all.

    A message in pieces has media, and so is no system message.
    """
    wanted = to_server(maker, model).get("system")
    if wanted is None:
        return bodies
    takes_one = wanted == "one"
    are_systems = [isinstance(body, bytes) and _read_role(body).role == "system" for body in bodies]
    count = sum(are_systems)
    if all(are_systems[:count]) and (count <= 1 or not takes_one):
        return bodies
    mends.add(SYSTEM_FIRST, 0)
    given = list(zip(bodies, are_systems, strict=True))
    systems = [body for body, is_system in given if is_system]
    if takes_one:
        messages = list(map(msgspec.json.decode, systems))
        one = {"role": "system", "content": _joined(_text_of(each["content"]) for each in messages)}
        mends.joins.append((messages, one))
        systems = [msgspec.json.encode(one)]
    return [*systems, *(body for body, is_system in given if not is_system)]


def in_alternation(bodies: list[Any], maker: str, model: str, mends: Mends) -> list[Any]:
    """Return the bodies of a request's messages. Where the model's template wants user and assistant in turn, neighbours of
    one role are one message.

    A body is bytes, or pieces of them. Messages with calls or results stay apart.
    """
    wanted = to_server(maker, model).get("alternation")
    if wanted is None:
        return bodies
    if wanted == "answered":
        mends.joins.append(([], None))  # so that the tokens that were reserved are given back
    found: list[Any] = []
    for role, neighbours in groupby(bodies, _turn_of):
        if wanted == "answered" and role == "user" and found and _read_role(whole_body(found[-1])).role == "tool":
            mends.add(ALTERNATING, 0)
            mends.joins.append(([], UNSAID))
            found.append(msgspec.json.encode(UNSAID))
        group = list(neighbours)
        if role and len(group) > 1:
            mends.add(ALTERNATING, 0)
            messages = [msgspec.json.decode(whole_body(body)) for body in group]
            said = _joined(message.get(name) for message in messages for name in ("content", "refusal"))
            one = {**messages[0], "content": said}
            one.pop("refusal", None)
            mends.joins.append((messages, one))
            group = [msgspec.json.encode(one)]
        found += group
    return found


def with_user_first(bodies: list[Any], maker: str, model: str, mends: Mends) -> list[Any]:
    """Return the bodies of a request's messages with a user's message of ``…`` before the assistant's, where the first
    message beside system messages is the assistant's and is refused; if a question behind it is enough, only without one."""
    wanted = to_server(maker, model).get("beginning")
    if wanted is None:
        return bodies
    for index, body in enumerate(bodies):
        role = _read_role(whole_body(body)).role
        if role in SYSTEM_ROLES:
            continue
        is_asked = wanted == "asked" and any(_read_role(whole_body(each)).role == "user" for each in bodies[index:])
        if role != "assistant" or is_asked:
            break
        mends.add(USER_FIRST, 0)
        return [*bodies[:index], OPENING, *bodies[index:]]
    return bodies


def whole_body(body: Any) -> bytes:
    """Return a message's body, which is bytes or pieces of them, as bytes."""
    return body if isinstance(body, bytes) else b"".join(body)


def _turn_of(body: Any) -> str:
    """The role of a message of the user's or the assistant's, without calls; empty for others."""
    message = _read_role(whole_body(body))
    return message.role if message.role in _JOINED_ROLES and not (message.tool_calls or message.function_call) else ""


def _joined(contents: Iterable[Any]) -> Any:
    """Return several contents as one: a text if all are texts, else a list of parts.

    Texts in a row are joined with a blank line between them. A blank text is left out, unless all are blank.
    """
    given = [each for each in contents if each]
    said = [each for each in given if not (isinstance(each, str) and each.isspace())] or given[:1]
    if all(isinstance(each, str) for each in said):
        return "\n\n".join(said)
    parts: list[Any] = []
    for is_text, run in groupby(said, lambda each: isinstance(each, str)):
        neighbours = [*run]
        parts += [{"type": "text", "text": "\n\n".join(neighbours)}] if is_text else chain.from_iterable(neighbours)
    return parts


def mended_for_servers(message: Message, bits: int) -> tuple[Message | None, list[Mend]]:
    """Return the message without what ``bits`` say, and its mends. None where it is left out."""
    if bits & EMPTY and message["role"] == "assistant" and not has_word(message, blanks=True):
        return None, [EMPTY_REPLY]
    if bits & SILENT and message["role"] in SYSTEM_ROLES and not has_word(message, blanks=True):
        return None, [EMPTY_QUESTION]
    mends = []
    for bit, mend, changed in _CHANGES:
        if bits & bit and (found := changed(message)) != message:
            message = found
            mends.append(mend)
    return message, mends


class _Role(msgspec.Struct):
    role: str
    tool_calls: list[msgspec.Raw] | None = None
    function_call: dict[str, msgspec.Raw] | None = None


_read_role = msgspec.json.Decoder(_Role).decode


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


# ---- the changes


def _with_words(message: Message) -> Message:
    is_silent = message["role"] == "user" and not has_word(message, blanks=True)
    return {**message, "content": NOTHING_SAID} if is_silent else message


def _with_reasoning(message: Message) -> Message:
    """The message with a blank as its reasoning, if it calls and has none."""
    if not message.get("tool_calls") or any(message.get(name) for name in PLAIN):
        return message
    return {**message, CONTENT: BLANK}


def _with_content(message: Message) -> Message:
    """The message with its reasoning as ``reasoning_content``; without it where it is sealed in other members."""
    if message["role"] != "assistant" or message.get(CONTENT):
        return message
    text = plain_text(message)
    left = {name: each for name, each in message.items() if name not in PLAIN}
    return {**left, CONTENT: text} if text else left


def _without_details(message: Message) -> Message:
    """The same, where ``reasoning_details`` are read."""
    return message if message.get("reasoning_details") else _with_content(message)


def _in_both(message: Message) -> Message:
    """The message with its reasoning in both members that servers read; as it is where it has none that is a text."""
    text = plain_text(message) if message["role"] == "assistant" else ""
    left = {name: each for name, each in message.items() if name not in PLAIN}
    return {**left, CONTENT: text, "reasoning": text} if text else message


def _without_name(message: Message) -> Message:
    """The message without the name of a speaker that is not the user. A function's result is found by its name."""
    if message["role"] in ("user", "function"):
        return message
    return {name: each for name, each in message.items() if name != "name"}


def _system_in_one_text(message: Message) -> Message:
    return _in_one_text(message) if message["role"] in SYSTEM_ROLES else message


def _in_one_text(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, list) or any(part.get("type") != "text" for part in content):
        return message
    return {**message, "content": _text_of(content)}


def has_list(body: Any) -> bool:
    """Return whether a message's content may be a list, by its body, which is bytes or pieces of them.

    In a text its quotation marks would be escaped.
    """
    return _LIST in (body if isinstance(body, bytes) else body[0])


def _as_system(message: Message) -> Message:
    return {**message, "role": "system"} if message["role"] == "developer" else message


def _with_objects(message: Message) -> Message:
    """The message with arguments of calls that are objects."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_with_object(call) for call in calls]} if calls else message


def _with_object(call: Message) -> Message:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(given := function.get("arguments"), str):
        return call
    found = arguments_object(given, custom=False)
    if given.lstrip()[:1] == "{" and found != {INVALID: given}:
        return call
    return {**call, "function": {**function, "arguments": msgspec.json.encode(found).decode()}}


def _with_short_ids(message: Message) -> Message:
    changed = dict(message)
    if isinstance(answered := message.get("tool_call_id"), str):
        changed["tool_call_id"] = short_id(answered)
    if calls := message.get("tool_calls"):
        changed["tool_calls"] = [{**call, "id": short_id(str(call.get("id", "")))} for call in calls]
    return changed


def short_id(identity: str) -> str:
    """Return a call's id as Mistral takes it: nine letters and digits.

    >>> short_id("D681PevKs"), len(short_id("call_1"))
    ('D681PevKs', 9)
    """
    if _ID.fullmatch(identity):
        return identity
    number = int.from_bytes(blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    found = []
    for _ in range(9):
        number, digit = divmod(number, len(_DIGITS))
        found.append(_DIGITS[digit])
    return "".join(found)


_CHANGES: Final[tuple[tuple[int, Mend, Callable[[Message], Message]], ...]] = (
    (DEVELOPER, DEVELOPER_ROLE, _as_system),
    (ARGUMENTS, BROKEN_ARGUMENTS, _with_objects),
    (IDENTITY, SHORT_ID, _with_short_ids),
    (SILENT, EMPTY_QUESTION, _with_words),
    (PARTS, ONE_TEXT, _system_in_one_text),
    (TEXTS, ONE_TEXT, _in_one_text),
    (NAMED, SPEAKER, _without_name),
    (THOUGHTS, REASONING_MEMBER, _with_content),
    (DETAILS, REASONING_MEMBER, _without_details),
    (OWING, NO_REASONING, _with_reasoning),
    (TWICE, REASONING_MEMBER, _in_both),
)
