"""What object storage says instead of serving, as a problem: a sentence for each kind, and the storage's own answer as note.

A client reads the sentence. The operator reads both, in the log, in ``GET /status`` and from ``sash doctor``. Words with a
slash are left out of the answer, because an object's path has a conversation's id.
"""

import re
from typing import Final

from sash.problems import Problem, StoreFull, StoreUnavailable

_FULL: Final = re.compile(
    r"os error (?:28|122)\b|StorageFull|InsufficientStorage|QuotaExceeded|status(?: code)?:? 507|507 Insufficient"
)
"""Words of the errors of a full disk (ENOSPC, EDQUOT) and of full object storage."""
_ANSWER: Final = re.compile(r"status code: (?P<status>\d{3}[^:]*)(?:: (?P<body>.*))?", re.DOTALL)
_SAID: Final = re.compile(r"<(Code|Message)>([^<]*)</|\"(code|message|reason)\": ?\"([^\"]*)\"", re.IGNORECASE)
_PATH: Final = re.compile(r"[^\s\"'<>]*/[^\s\"'<>]*")
_LONGEST: Final = 200
_KINDS: Final = (
    (r"status code: 40[13]|PermissionDenied|Unauthenticated|os error (?:1|13|30)\b", "refuses Sash",
     "let its credentials read, write, list and delete"),
    (r"status code: 404|NotFound|os error 2\b", "has no such folder or bucket", "make it, or correct SASH_MEDIA_URL"),
    (r"BareRedirect|status code: 30\d", "is in another region", "set its region"),
    (r"ConnectionRefused|ConnectionReset", "refuses the connection", "start it, or correct its address"),
    (r"dns error|failed to lookup", "has no address", "correct the name in its address"),
    (r"kind: Timeout|TimedOut|timed out", "does not answer", "look whether it is overloaded, or a firewall is between"),
    (r"certificate", "has a certificate that is not trusted", "trust its CA"),
)  # fmt: skip
"""Words of an error, what they mean, and what to do."""


def problem_of(error: Exception) -> Problem:
    """Return the problem of an error of object storage, with the storage's answer as its note."""
    text = str(error)
    if _FULL.search(text):
        return StoreFull("The object storage is full: reading and erasing still work.")
    said = said_in(text)
    for words, meaning, action in _KINDS:
        if re.search(words, text):
            return noted(f"The object storage {meaning}.", f"{action[0].upper()}{action[1:]}." + said)
    return noted("The object storage cannot serve now; try again.", said.strip() or type(error).__name__)


def silence(seconds: float) -> Problem:
    """Return the problem of a storage that has not answered."""
    return noted(
        f"The object storage did not answer within {seconds:g} seconds.",
        "Look whether it is overloaded, or a firewall is between.",
    )


def lost(error: FileNotFoundError) -> Problem:
    """Return the problem of a folder or bucket that is not there."""
    return noted(
        "The object storage has lost its folder or bucket.",
        "Make it, or correct SASH_MEDIA_URL." + said_in(str(error)),
    )


def noted(detail: str, note: str) -> StoreUnavailable:
    """Return the problem with a note for the operator."""
    problem = StoreUnavailable(detail)
    problem.add_note(note)
    return problem


def told(problem: Problem) -> str:
    """Return what the operator reads of a problem: its sentence, and its notes."""
    return " ".join([problem.detail, *getattr(problem, "__notes__", ())])


def said_in(text: str) -> str:
    """Return the storage's own answer as a sentence, without paths; empty where it gave none."""
    found = _ANSWER.search(text.partition("\n\nDebug source")[0])
    if found is None:
        return ""
    words = [code or other for _, code, _, other in _SAID.findall(found["body"] or "")]
    answer = _PATH.sub("…", ", ".join([found["status"].strip(), *words]))[:_LONGEST]
    return f" It answered: {answer.rstrip('.')}."
