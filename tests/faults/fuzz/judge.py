"""What is wrong with an answer: a server error, a total over the budget, a window without a message, a refused request."""

import json
import re
from typing import Any, NamedTuple

from faults.fuzz.scripts import Object
from validators.judges import JUDGES

KINDS = ("5xx", "over", "hangs", "empty", "short", "stores", "bulk", "alike", "receipt", "wordless", "refused")
"""What may be wrong, in the order of the table."""
MEANINGS = {
    "5xx": "an answer of 500 or more",
    "over": "a total over the budget, or `POST /count` of the request over the total",
    "hangs": "no answer within the deadline",
    "empty": "no message, though one can be sent",
    "short": "refused again with the shortfall that was told",
    "stores": "other bytes from the other store",
    "bulk": "other bytes where messages were appended one by one",
    "alike": "one form of a picture is taken, another refused",
    "receipt": "other bytes by the receipt",
    "wordless": "a reply that was stopped before a word is kept",
    "refused": "the provider's rules refuse the request",
}


class Wrong(NamedTuple):
    """Something wrong: its kind, a sentence about it, and the parameters of the window, if it is one's."""

    kind: str
    detail: str
    window: Object | None = None


def messages_in(form: str, request: Object) -> list[Any]:
    """Return a request's messages."""
    found: list[Any] = request.get(JUDGES[form][0]) or []
    return found


def refused(form: str, model: str, request: Object) -> list[str]:
    """Return why the provider refuses the request. One without messages waits for the client's next."""
    if not messages_in(form, request):
        return []
    try:
        return JUDGES[form][1](request, model)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"a type that no provider takes: {type(error).__name__} {error}"]


def can_be_sent(entry: Object) -> bool:
    """Return whether an entry of a page is a question with a word, which each window can have."""
    message = entry["message"]
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [part.get("text") for part in content or ()]
    return message["role"] == "user" and not entry.get("redacted") and any(text and text.strip() for text in texts)


_WORD = re.compile(r"zq\d+z")
_OF_ITS_STORE = ("version", "etag", "receipt", "conversation_id", "expires_at")


def plain(window: Object) -> Object:
    """Return a window without what tells one conversation from another."""
    found = {name: value for name, value in window.items() if name not in _OF_ITS_STORE}
    if isinstance(found.get("request"), dict):
        found["request"] = {name: each for name, each in found["request"].items() if name != "prompt_cache_key"}
    return found


def words_in(request: Object) -> list[str]:
    """Return the words of their own that a request's texts, calls and results have, sorted."""
    return sorted(_WORD.findall(json.dumps(request)))


def difference(one: Any, other: Any, at: str = "") -> str:
    """Return the first place where two JSON values differ, with both values; empty if they are the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            if name not in one or name not in other:
                return f"{at}/{name} is only in {'the first' if name in one else 'the second'}"
            if found := difference(one[name], other[name], f"{at}/{name}"):
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list):
        pairs = enumerate(zip(one, other, strict=False))
        first = next((found for place, pair in pairs if (found := difference(*pair, f"{at}/{place}"))), "")
        return first if len(one) == len(other) else f"{at} has {len(one)} and {len(other)} parts; {first}"
    return "" if one == other else f"{at}: {json.dumps(one)[:120]} and {json.dumps(other)[:120]}"
