"""Where the messages of a request may be divided among requests.

A reply's items are given as the provider gave them, in one request. Results without an id are those of their neighbours'
calls: a request tells by their order which call each one answers.
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
        before = ""
        for message in messages:
            kind = _kind(form, message)
            if before and (before == kind != "alone" or not ends()):
                found[-1][1].append(message)
            else:
                found.append((form, [message]))
            before = kind
    return found


def _kind(form: str, message: Object) -> str:
    """Whether a message is of a reply, is a result without an id, or stands alone."""
    own = message["message"] if isinstance(message.get("message"), dict | list) else message
    if isinstance(own, list) or "tool_calls" in own:
        return "alone"
    if form in ("responses", "interactions"):
        kind = str(own.get("type", ""))
        is_answer = kind == "function_result" or (form == "responses" and kind.endswith("_output"))
        return "alone" if is_answer or kind == "user_input" or own.get("role") in _ASKS else "reply"
    if form == "ollama":
        return "result" if own.get("role") == "tool" and not own.get("tool_call_id") else "alone"
    parts = own.get("parts") if form == "gemini" else ()
    answers = [part.get("functionResponse") or part.get("function_response") for part in parts or ()]
    return "result" if any(each and not each.get("id") for each in answers) else "alone"
