"""What OpenAI's Responses refuse in an item of the history, and the item that is sent in its place.

OpenAI's SDK declares each item (``openai.types.responses.response_input_item_param``, 3.52): an assistant's list of parts is
a stored reply's, with its ``id`` and ``status``; an assistant's text without these is a plain string. Most hosted tools'
calls need their ``id``. Items lose theirs with the reasoning before them, because OpenAI answers 400 to a stored item
without it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from sash.core.providers.messages.call_inputs import input_text
from sash.core.providers.messages.hosted import line_of, media_line
from sash.core.providers.messages.mends import Mend, Mends
from sash.core.providers.messages.owed_reasoning import BLANK, NO_REASONING
from sash.core.providers.messages.pieces import to_json
from sash.core.providers.openai.chat_mends import (
    EMPTY_CONTENT,
    FILE_NAME,
    FILED,
    NAME,
    OPENAIS_MEDIA,
    OTHER_TYPE,
    digest_of,
    fitting_function,
    picture_oddity,
    retyped,
    shorter,
    with_data_url,
    with_file_name,
)
from sash.core.providers.writing.media_types import MEDIA_TYPE, UNTAKEN, Takes, is_web
from sash.core.providers.writing.shared_mends import CALL_ID
from sash.core.providers.writing.turns import RequestWriting

Item = dict[str, Any]


class Placed(NamedTuple):
    """An item, the seq of the message that it is of, and whether it came in this form."""

    seq: int
    item: Item
    came: bool = False


LONE_REASONING: Final = Mend(
    name="lone_reasoning",
    refused="A reasoning item without the item of its reply behind it",
    sent="The request without the reasoning item",
    evidence="OpenAI answers 400: \"Item 'rs_…' of type 'reasoning' was provided without its required following item\"",
)
ITEM_SHAPE: Final = Mend(
    name="item_shape",
    refused="An item without a member that OpenAI's type requires: an assistant's parts without `id` or `status`, an image "
    "without `detail`, a hosted call without its `status`, a local shell's output without its `call_id` or `id`; a member "
    "that is null; arguments that are no text; an image's address as an object; an image or a file that is nowhere",
    sent="The item with the member's default, or without what is null; an assistant's text as a string; the address as a "
    "string",
    evidence="openai.types.responses.ResponseInputItemParam; OpenAI answers 400 to an assistant's `input_text`; a local "
    "shell's output requires `call_id` and `id` (openai/openai-python 3923)",
)
ITEM_ID: Final = Mend(
    name="item_id",
    refused="An item's id of more than 64 characters, of others than letters, digits, `_` and `-`, or that begins otherwise "
    "than its type's ids: `msg`, `fc`, `ctc`, `rs`, `ws` and their like",
    sent="The item without its id; one that needs an id with another",
    evidence="OpenAI answers 400: \"Invalid 'input[2].id': string too long. Expected a string with maximum length 64\"; "
    '"Expected an ID that begins with \'msg\'" (langchain-ai/langchain 39113, openai/codex 33176); "Expected an ID that '
    'contains letters, numbers, underscores, or dashes" (langchain-ai/langchainjs 11044)',
)
RESULT_KIND: Final = Mend(
    name="result_kind",
    refused="A function's output that answers a custom tool's call, or the other way round",
    sent="The output as one of the call's type",
    evidence="OpenAI answers 400: 'No tool call found for function call output with call_id call_1'",
)
ITEM_TWICE: Final = Mend(
    name="item_twice",
    refused="An id of an item that is used twice",
    sent="The later item without its id; a hosted call that needs one with another; nothing in place of the same item",
    evidence="OpenAI answers 400: 'Duplicate item found with id rs_…. Remove duplicate items from your input and try again' "
    "(vercel/ai 7883, 13307)",
)
HOSTED_WITHOUT_ID: Final = Mend(
    name="hosted_without_id",
    refused="A hosted tool's call without its id, which it loses with the reasoning before it",
    sent="One line of text in its place",
    evidence="openai.types.responses: `id` is required in web_search_call, file_search_call and their like",
)
HOSTED_STATE: Final = Mend(
    name="hosted_state",
    refused="A hosted tool's call that did not end, or an image call that failed: the server has no item of its id; code in "
    "a container that has ended",
    sent="One line of text in its place",
    evidence="OpenAI answers 404: \"Item with id 'ig_…' not found\"; a container ends 20 minutes after it was last used "
    "(developers.openai.com/api/docs/guides/tools-code-interpreter; pydantic/pydantic-ai 7461)",
)
ITEM_MENDS: Final = (
    LONE_REASONING,
    ITEM_SHAPE,
    ITEM_ID,
    ITEM_TWICE,
    HOSTED_WITHOUT_ID,
    HOSTED_STATE,
    RESULT_KIND,
    UNTAKEN,
    MEDIA_TYPE,
    FILED,
    FILE_NAME,
    EMPTY_CONTENT,
    NAME,
    CALL_ID,
)

ITEMS_MEDIA: Final = Takes(pictures=OPENAIS_MEDIA.pictures, sounds=frozenset())
"""What items take: pictures as chat completions do, files of many types, no sounds."""
_LONGEST: Final = 64
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_BEGINS: Final[Mapping[str, str]] = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "computer_call": "cu",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
}
"""How ids of items begin, by type."""
_PLAIN: Final = 2
"""Members of a text without anything else: role and content."""
_STATUSES: Final = frozenset({"in_progress", "completed", "incomplete"})
_DEFAULTS: Final[Mapping[str, Item]] = {
    "web_search_call": {"status": "completed"},
    "file_search_call": {"status": "completed"},
    "code_interpreter_call": {"status": "completed", "code": None, "outputs": None},
    "image_generation_call": {"status": "completed", "result": None},
    "computer_call": {"status": "completed", "pending_safety_checks": []},
    "local_shell_call": {"status": "completed"},
    "apply_patch_call": {"status": "completed"},
    "apply_patch_call_output": {"status": "completed"},
    "program_output": {"status": "completed"},
    "reasoning": {"summary": []},
}
"""Members that are required, and what they are where they are absent."""
_NEVER_NULL: Final[Mapping[str, Sequence[str]]] = {
    "message": ("id", "status"),
    "function_call": ("async", "id", "namespace", "status"),
    "custom_tool_call": ("async", "id", "namespace"),
    "custom_tool_call_output": ("id",),
    "reasoning": ("content", "status"),
    "computer_call": ("action", "actions"),
}
"""Members that may be absent, and must not be null, as replies that were written by other programs have them."""
_REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "web_search_call": ("id", "action"),
    "file_search_call": ("id", "queries"),
    "code_interpreter_call": ("id", "container_id"),
    "image_generation_call": ("id",),
    "mcp_call": ("id", "arguments", "name", "server_label"),
    "mcp_list_tools": ("id", "server_label", "tools"),
}
"""Members of hosted tools' calls that have no default."""
_PAIRED: Final[Mapping[str, Sequence[str]]] = {
    "computer_call": ("id",),
    "local_shell_call": ("id", "action"),
    "program": ("id", "code", "fingerprint"),
    "program_output": ("id", "result"),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
}
"""Members of calls with a result that have no default. Without one, call and result are sent as a function's."""
_DONE: Final = frozenset({"completed", None})
_CONTAINER_SECONDS: Final = 20 * 60
_NAMED_BY_ID: Final = frozenset({"mcp_approval_request", "item_reference"})
"""Items that others refer to by their id, or that are nothing else."""
_SHELL_OUTPUT: Final = "local_shell_call_output"
_ANSWERED_BY_ID: Final = frozenset({"mcp_approval_request", _SHELL_OUTPUT})
"""Items whose id, without a ``call_id``, is that of their call."""
_WITH_ID: Final = frozenset(
    {"reasoning", *(kind for kind, names in (*_REQUIRED.items(), *_PAIRED.items()) if "id" in names)}
)
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_TEXT_ARGUMENTS: Final = frozenset({"function_call", "mcp_call", "mcp_approval_request"})
"""Items whose arguments are a text; those of a tool search may be anything."""
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_WHERE: Final = {"input_image": ("image_url", "file_id"), "input_file": ("file_data", "file_id", "file_url")}
"""The members that say where a picture or a file is."""
_NAMED: Final = frozenset({"function_call", "custom_tool_call"})
_SOUNDS: Final = frozenset({"output_audio", "audio", "input_audio"})
"""Parts of spoken messages, as the Realtime API writes them."""


def kind_of(item: Mapping[str, Any]) -> str:
    """Return an item's type; a message may be without it."""
    return str(item.get("type") or ("message" if "role" in item else "item_reference"))


def is_spoken(part: Mapping[str, Any]) -> bool:
    """Return whether a part is of a spoken message, which has its words in ``transcript``, and is no sound that is sent."""
    return part.get("type") in _SOUNDS and not isinstance(part.get("input_audio"), dict)


def as_ended(items: list[Placed], writing: RequestWriting) -> list[Placed]:
    """Return the items with a line in place of each hosted call that is not done, or whose container has ended since it was
    last used. Reasoning before it is of no item then."""
    if _REQUIRED.keys().isdisjoint([placed.item.get("type") for placed in items]):  # as nearly always
        return items
    used = {
        item["container_id"]: writing.came(seq) for seq, item, _ in items if isinstance(item.get("container_id"), str)
    }
    ended = {name for name, came in used.items() if 0 < came < writing.now - _CONTAINER_SECONDS}
    left = []
    for placed in items:
        if _is_open(placed.item) or (ended and placed.item.get("container_id") in ended):
            writing.mends.add(HOSTED_STATE, placed.seq)
            left.append(Placed(placed.seq, _as_line(placed.item)))
        else:
            left.append(placed)
    return left


def as_taken(
    items: list[Placed],
    functions: AbstractSet[str],
    as_function: Callable[[Item], Item],
    mends: Mends,
    *,
    fills_reasoning: bool = False,
) -> list[Item]:
    """Return the items as OpenAI takes them; with ``fills_reasoning``, as a server that wants reasoning before each call.

    ``as_function`` makes a function's call or result of another kind's. The calls with the ids ``functions`` are sent so.
    """
    lacking = {call_of(placed.item) for placed in items if placed.came and _lacks(placed.item, _PAIRED)}
    taken: list[Item] = []
    results: dict[str, str] = {}
    """The type of a call's output, by the call's id."""
    sent: Iterable[Placed] = _sent(items, mends)
    if functions or lacking:
        sent = _as_functions(sent, functions, lacking, as_function, mends)
    for seq, item, _ in _filled_with_reasoning(sent, mends) if fills_reasoning else sent:
        found = item
        if len(item) != _PLAIN or type(item.get("content")) is not str:  # else a text alone, which needs no mend
            found = _changed(_of_call(item, results, seq, mends), seq, mends)
        if found:
            taken.append(found)
            if seq:  # the others are texts alone
                mends.send(seq, found)
    return taken


def _as_functions(
    items: Iterable[Placed],
    functions: AbstractSet[str],
    lacking: AbstractSet[str],
    as_function: Callable[[Item], Item],
    mends: Mends,
) -> Iterator[Placed]:
    """Yield the items. The calls whose ids are in ``functions`` or ``lacking``, and their results, become a function's.

    A call in ``lacking`` has not all members that its own type needs, so its change is a mend.
    """
    for placed in items:
        identity = call_of(placed.item)
        if identity and identity in lacking:
            mends.add(ITEM_SHAPE, placed.seq)
        is_so = identity and (identity in lacking or identity in functions)
        yield placed._replace(item=as_function(placed.item)) if is_so else placed


def _of_call(item: Item, results: dict[str, str], seq: int, mends: Mends) -> Item:
    """A result as its call's type has it; a call, which is noted in ``results``, and another item as they are."""
    kind = item.get("type")
    if kind in _NAMED:
        results[call_of(item)] = f"{kind}_output"
    elif kind in _RESULTS and (wanted := results.get(call_of(item), kind)) != kind:
        mends.add(RESULT_KIND, seq)
        return {**item, "type": wanted}
    return item


def _changed(item: Item, seq: int, mends: Mends) -> Item:
    found = item
    for mend, change in _CHANGES:
        if (other := change(found)) != found:
            found = other
            mends.add(mend, seq)
    return found


def call_of(item: Item) -> str:
    """Return the id of the call that an item makes or answers; empty without one."""
    identity = item.get("call_id")
    if item.get("type") in _ANSWERED_BY_ID and identity is None:
        identity = item.get("id")
    return identity if isinstance(identity, str) else ""


def _lacks(item: Mapping[str, Any], required: Mapping[str, Sequence[str]]) -> bool:
    return any(
        item.get(name) is None or (name == "id" and not item[name]) for name in required.get(str(item.get("type")), ())
    )


# ---- reasoning


def _sent(items: list[Placed], mends: Mends) -> list[Placed]:
    """The items that are sent: each once, and reasoning with its reply's item behind it alone."""
    kept = _not_empty(items, mends)
    named = [place for place, (_, item, _) in enumerate(kept) if "id" in item or item.get("type") == "reasoning"]
    if not named:  # as of chat messages
        return kept
    followed = [*_followed(kept, mends)]
    once = [*_once(followed, mends)]
    return once if len(once) == len(followed) else [*_followed(once, mends)]


def _not_empty(items: list[Placed], mends: Mends) -> list[Placed]:
    """The items without an assistant's messages that have no part."""
    empty = {
        place
        for place, (_, item, _) in enumerate(items)
        if not item.get("content") and item.get("role") == "assistant" and item.get("content") in ([], None)
    }
    for place in empty:
        mends.add(EMPTY_CONTENT, items[place].seq)
    return [placed for place, placed in enumerate(items) if place not in empty] if empty else items


def _once(items: Iterable[Placed], mends: Mends) -> Iterator[Placed]:
    """Yield the items, each id once. Those of hosted tools stay, of which the call or its answer needs the other."""
    seen: dict[str, Item] = {}
    for placed in items:
        item, kind = placed.item, kind_of(placed.item)
        identity = _sealed(item).get("id") if kind == "reasoning" and not item.get("id") else item.get("id")
        is_answered = (kind in _PAIRED and "call_id" not in item) or kind == "mcp_approval_request"
        is_answer = kind.endswith("_output") and kind not in _RESULTS
        if not isinstance(identity, str) or not identity or is_answered or is_answer:
            yield placed
        elif identity not in seen:
            seen[identity] = item
            yield placed
        else:
            mends.add(ITEM_TWICE, placed.seq)
            if kind in _PAIRED:  # its answer names its call_id
                yield placed._replace(item={**item, "id": f"{identity}_{placed.seq}"})
            elif kind not in _WITH_ID | _NAMED_BY_ID:
                yield placed._replace(item={name: value for name, value in item.items() if name != "id"})
            elif item != seen[identity] and kind not in _NAMED_BY_ID | {"reasoning"}:
                yield placed._replace(item={**item, "id": f"{identity}_{digest_of(to_json(item))}"})


def _followed(items: Sequence[Placed], mends: Mends) -> Iterator[Placed]:
    """Yield the items without reasoning that no item of its reply follows."""
    kept: list[Placed] = []
    follower = Placed(0, {})
    for placed in reversed(items):
        if placed.item.get("type") != "reasoning":
            follower = placed
        elif not ((follower.came or not placed.came) and follower.seq - placed.seq <= 1 and _is_said(follower.item)):
            mends.add(LONE_REASONING, placed.seq)
            continue
        kept.append(placed)
    yield from reversed(kept)


def reasoning_item(text: str, of: str) -> Item:
    """Return a model's reasoning as an item, for servers that read it as a text. Its id follows from what it is ``of``."""
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": f"rs_{digest_of(of)}", "summary": [], "content": content}


def _filled_with_reasoning(items: Iterable[Placed], mends: Mends) -> Iterator[Placed]:
    """Yield the items with a blank as the reasoning before calls that have none in their reply. It is priced with them."""
    has_reasoning = False
    for placed in items:
        kind = kind_of(placed.item)
        if kind in _NAMED and not has_reasoning:
            mends.add(NO_REASONING, placed.seq)
            yield Placed(0, reasoning_item(BLANK, call_of(placed.item)))
        is_of_reply = kind in _NAMED or placed.item.get("role") == "assistant"
        has_reasoning = kind == "reasoning" or kind in _NAMED or (has_reasoning and is_of_reply)
        yield placed


def _is_said(item: Item) -> bool:
    """Whether an item is of a reply: a message of the assistant, or a call."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return not (kind.endswith("_output") or kind in ("mcp_approval_response", "item_reference", "compaction_trigger"))


# ---- one item


def _with_fit_id(item: Item) -> Item:
    """The item without an id that is not one of its type's; with another where its type needs an id."""
    identity, kind = item.get("id"), kind_of(item)
    if not isinstance(identity, str) or kind in _NAMED_BY_ID:
        return item
    begins = _BEGINS.get(kind)
    if begins is None and 0 < len(identity) <= _LONGEST:
        return item
    if begins is not None and identity.startswith(begins) and _ID.fullmatch(identity):
        return item
    if identity and kind in _WITH_ID:
        return {**item, "id": f"{begins}_{digest_of(identity)}" if begins else shorter(identity, _LONGEST)}
    return {name: value for name, value in item.items() if name != "id"}


def _with_short_calls(item: Item) -> Item:
    names = ["call_id", "approval_request_id"]
    names += ["id"] if item.get("type") == "mcp_approval_request" else []
    short = {
        name: shorter(item[name], _LONGEST)
        for name in names
        if isinstance(item.get(name), str) and len(item[name]) > _LONGEST
    }
    return {**item, **short} if short else item


def _with_names(item: Item) -> Item:
    if item.get("type") in _NAMED and isinstance(name := item.get("name"), str):
        return {**item, "name": fitting_function(name)}
    return item


def _without_nulls(item: Item) -> Item:
    kind = kind_of(item)
    null = [name for name in _NEVER_NULL.get(kind, ()) if name in item and item[name] is None]
    found = {name: value for name, value in item.items() if name not in null} if null else item
    action = found.get("action")
    if kind == "web_search_call" and isinstance(action, dict) and None in action.values():
        found = {**found, "action": _filled(action)}
    return found


def _filled(value: Item) -> Item:
    return {name: each for name, each in value.items() if each is not None}


def _with_call_id(item: Item) -> Item:
    """A local shell's output, which answers its call by ``id`` in the SDK's type, with that as its ``call_id``, too."""
    if item.get("type") != _SHELL_OUTPUT or item.get("call_id") is not None or not call_of(item):
        return item
    return {**item, "call_id": call_of(item)}


def _told(item: Item) -> Item:
    """A hosted call that lacks what its type requires, as its line."""
    return _as_line(item) if _lacks(item, _REQUIRED) else item


def _is_open(item: Item) -> bool:
    """Whether an item is a hosted call that did not end, or an image call that failed."""
    if item.get("type") not in _REQUIRED or item.get("status") in _DONE:
        return False
    return item["status"] != "failed" or (item["type"] == "image_generation_call" and not item.get("result"))


def _as_line(item: Item) -> Item:
    return {"role": "assistant", "content": line_of(item, kind_of(item))}


def _complete(item: Item) -> Item:
    kind = kind_of(item)
    if kind == "message":
        return _assistants(item) if item.get("role") == "assistant" else _inputs(item)
    if kind == "reasoning" and not item.get("id"):
        return _sealed(item)
    if kind == _SHELL_OUTPUT and not item.get("id"):
        return {**item, "id": call_of(item)}
    if defaults := {name: value for name, value in _DEFAULTS.get(kind, {}).items() if item.get(name) is None}:
        item = {**item, **defaults}
    if kind in _TEXT_ARGUMENTS and not isinstance(given := item.get("arguments", ""), str):
        item = {**item, "arguments": input_text(given)}
    if kind in _NAMED and item.get("status", "completed") not in _STATUSES:
        item = {name: value for name, value in item.items() if name != "status"}
    return {**item, "output": _output(item.get("output"))} if kind in _RESULTS else item


def _sealed(item: Item) -> Item:
    """Reasoning without an id, which some programs leave out, with one that its sealed content gives; else nothing."""
    sealed = item.get("encrypted_content")
    if not isinstance(sealed, str) or not sealed:
        return {}
    return {"summary": [], **item, "id": f"rs_{digest_of(sealed)}"}


def _output(output: Any) -> Any:
    match output:
        case str():
            return output
        case [_, *_] if all(isinstance(part, dict) for part in output):
            return _input_parts(output) or ""
        case dict() if output:
            return to_json(output)
    return ""


def _assistants(item: Item) -> Item:
    """An assistant's message as it is stored at OpenAI, else with its text as a string."""
    content = item.get("content")
    if isinstance(content, str):
        if item.keys().isdisjoint(("id", "status")):
            return item
        content = [{"type": "output_text", "text": content}]
    parts = content if isinstance(content, list) else []
    if item.get("status") in _STATUSES and isinstance(item.get("id"), str) and parts and all(map(_is_output, parts)):
        whole = [
            part if part["type"] == "refusal" else {**_filled(part), "annotations": part.get("annotations") or []}
            for part in parts
        ]
        return {**item, "type": "message", "content": whole}
    text = "".join(str(part.get("text") or part.get("refusal") or part.get("transcript") or "") for part in parts)
    phase = {"phase": item["phase"]} if item.get("phase") else {}
    return {"role": "assistant", "content": text, **phase}


def _is_output(part: Any) -> bool:
    return isinstance(part, dict) and (
        (part.get("type") == "output_text" and isinstance(part.get("text"), str))
        or (part.get("type") == "refusal" and isinstance(part.get("refusal"), str))
    )


def _inputs(item: Item) -> Item:
    content = item.get("content")
    if not isinstance(content, list):
        return item
    return {**item, "content": _input_parts(content) or ""}


def _input_parts(parts: Iterable[Any]) -> list[Any]:
    """The parts as inputs, without pictures and files that are nowhere."""
    return [part for part in map(_input_part, parts) if part is not None]


def _input_part(part: Any) -> Any:
    match part:
        case {"type": "input_image" | "input_file" as kind} if not any(part.get(name) for name in _WHERE[kind]):
            return None
        case {"type": "input_image", "image_url": {"url": str(url), **rest}}:  # as chat completions have it
            return _input_part({**part, "detail": part.get("detail") or rest.get("detail"), "image_url": url})
        case {"type": "text" | "output_text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case {"transcript": str(said)} if is_spoken(part):
            return {"type": "input_text", "text": said}
        case {"type": "input_image"} if part.get("detail") is None:
            return {**part, "detail": "auto"}
    return part


def _with_media(change: Callable[[Item], Item]) -> Callable[[Item], Item]:
    """Return what changes the inputs of a message or of a call's output, part by part."""

    def changed(item: Item) -> Item:
        name = "output" if item.get("type") in _RESULTS else "content"
        is_input = name == "output" or (kind_of(item) == "message" and item.get("role") != "assistant")
        parts = item.get(name)
        if not is_input or not isinstance(parts, list):
            return item
        return {**item, name: [change(part) if isinstance(part, dict) else part for part in parts]}

    return changed


def _in_words(part: Item) -> Item:
    """A picture or a sound that OpenAI does not take as its line; another part as it is."""
    match part:
        case {"type": "input_image", "image_url": str(url)} if url and not is_web(url):
            if picture_oddity(url) & ~OTHER_TYPE:
                return {"type": "input_text", "text": media_line({"type": "image_url", "image_url": url})}
        case {"type": "input_audio", "input_audio": dict()}:
            return {"type": "input_text", "text": media_line(part)}
    return part


def _with_type(part: Item) -> Item:
    match part:
        case {"type": "input_image", "image_url": str(url)} if not is_web(url) and picture_oddity(url) == OTHER_TYPE:
            return {**part, "image_url": retyped(url)}
    return part


_CHANGES: Final[tuple[tuple[Mend, Callable[[Item], Item]], ...]] = (
    (ITEM_SHAPE, _without_nulls),
    (ITEM_SHAPE, _with_call_id),
    (ITEM_ID, _with_fit_id),
    (CALL_ID, _with_short_calls),
    (NAME, _with_names),
    (HOSTED_WITHOUT_ID, _told),
    (ITEM_SHAPE, _complete),
    (FILED, _with_media(with_data_url)),
    (FILE_NAME, _with_media(with_file_name)),
    (UNTAKEN, _with_media(_in_words)),
    (MEDIA_TYPE, _with_media(_with_type)),
)
