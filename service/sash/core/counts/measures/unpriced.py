"""Members of a message that are in no recorded bill, counted as the tokens of their strings.

Providers add members, and clients add their own. Windows send these members, so they are counted. Their bill is not known,
so the count is then not exact.
"""

from collections.abc import Mapping
from typing import Any, Final

from sash.core.counts.text import Pair, both, text_tokens
from sash.core.providers.messages.members import Unknown, unknown_members

_HINT: Final = "prompt_cache_breakpoint"


def unpriced_tokens(message: Mapping[str, Any]) -> Pair:
    """Return the tokens of the strings in a message's unknown members, without hints for a prompt cache: free in 6 bills.

    A spoken reply is sent with its id alone. A breakpoint of OpenAI's ends a text, so the tokens do not join across it: 2
    bills.
    """
    o200k, cl100k = text_tokens([_sent(each) for each in unknown_members(message) if not _is_hint(each)])
    apart = _parted(message.get("content"))
    return o200k + apart[0], cl100k + apart[1]


def _parted(content: Any) -> Pair:
    """What a message's texts have more than their joined text, because a breakpoint stands between two of them."""
    if not isinstance(content, list) or not any(_HINT in part for part in content):
        return 0, 0
    pieces = [""]
    for part in content:
        pieces[-1] += text if isinstance(text := part.get("text"), str) else ""
        pieces += [""] * (_HINT in part)
    whole, apart = both("".join(pieces)), [both(piece) for piece in pieces if piece]
    more = [max(0, sum(pair[column] for pair in apart) - whole[column]) for column in (0, 1)]
    return more[0], more[1]


def _is_hint(member: Unknown) -> bool:
    match member.name, member.value:
        case "cache_control", {"type": "ephemeral"}:
            return True
    return member.name == _HINT


def _sent(member: Unknown) -> dict[str, Any]:
    match member:
        case ("", "audio", {"id": identity}):
            return {"audio": {"id": identity}}
    return {member.name: member.value}
