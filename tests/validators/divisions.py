"""Where the messages of a request may be divided among requests.

A reply's items are given as the provider gave them, in one request.
"""

from collections.abc import Callable

from validators.logs import Group, Object

_ASKS = frozenset({"user", "system", "developer"})


def as_bulk(groups: list[Group]) -> list[Group]:
    """Return the groups with neighbours of one form in one request."""
    found: list[Group] = []
    for form, messages in groups:
        if found and found[-1][0] == form:
            found[-1] = form, [*found[-1][1], *messages]
        else:
            found.append((form, list(messages)))
    return found


def divided(groups: list[Group], ends: Callable[[], bool]) -> list[Group]:
    """Return the groups divided where they may be, and where ``ends`` says so."""
    found: list[Group] = []
    for form, messages in as_bulk(groups):
        goes_on = False
        for message in messages:
            is_of_reply = _is_of_reply(form, message)
            if (goes_on and is_of_reply) or (found and found[-1][0] == form and not ends()):
                found[-1][1].append(message)
            else:
                found.append((form, [message]))
            goes_on = is_of_reply
    return found


def _is_of_reply(form: str, message: Object) -> bool:
    """Whether a message is an item of a reply, or several."""
    own = message["message"] if isinstance(message.get("message"), dict | list) else message
    if form not in ("responses", "interactions") or "tool_calls" in own:
        return False
    kind = "" if isinstance(own, list) else str(own.get("type", ""))
    is_answer = kind == "function_result" or (form == "responses" and kind.endswith("_output"))
    return isinstance(own, list) or not (is_answer or kind == "user_input" or own.get("role") in _ASKS)
