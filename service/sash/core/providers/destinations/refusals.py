"""What a destination refuses in a finished request, by the rules (``rules/``).

They read the request alone, as it is sent, and know nothing of what was changed in it. So they judge the mends: in tests all
windows, in a running service one in a hundred. A rule of a format itself is judged by tests alone, with the providers' SDKs.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sash.core.providers.destinations.destination import Destination
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.destinations.rules import RULES


class BrokenRule(NamedTuple):
    """A rule that a request breaks, and the place as a JSON pointer, which holds no text of the request."""

    rule: Kind
    place: str


def refusals(request: Mapping[str, Any], to: Destination) -> Iterator[BrokenRule]:
    """Yield each rule of the destination that a finished request breaks. One without messages waits for the next."""
    messages = request.get("messages") or request.get("contents") or []
    for kind, value in to.values.items():
        rule = RULES[kind]
        if messages or rule.is_of_requests:
            yield from (BrokenRule(kind, place) for place in rule.judge(request, messages, value))
