"""Members of a message that are in no recorded bill, counted as the tokens of their strings.

Providers add members, and clients add their own. Windows send these members, so they are counted. Their bill is not known,
so the count is then not exact.
"""

from collections.abc import Mapping
from typing import Any, Final

from sash.core.counts.text import Pair, text_tokens
from sash.core.providers.messages.members import Unknown, unknown_members

_HINT: Final = "prompt_cache_breakpoint"


def unpriced_tokens(message: Mapping[str, Any]) -> Pair:
    """Return the tokens of the strings in a message's unknown members, without hints for a prompt cache: free in 6 bills.

    A spoken reply is sent with its id alone.
    """
    return text_tokens([_sent(each) for each in unknown_members(message) if not _is_hint(each)])


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
