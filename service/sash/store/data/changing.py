"""What all changes of a stored history share: what they name, what they are made with, and the problems that they raise."""

from typing import TypedDict

from sash.problems import Conflict, NotFound
from sash.store.data import script_calls
from sash.store.data.conversations import Conversations
from sash.store.data.replies import Page, State
from sash.store.redis.client import Client

ATTEMPTS = 32
"""Other writes that may come first, one after the other, before the client is asked to repeat the request."""


class Change(TypedDict):
    """What every change names: the life and the state that it is made to, its time, and its request.

    A repeated request, with the same ``token``, changes nothing more. A conversation that has begun again under the same id
    has another ``life``, and is not changed.
    """

    life: str
    if_match: str
    now_ms: int
    token: str


class Changing:
    """Changes of all conversations of a deployment, made with the store's client and the parts of ``conversations``."""

    def __init__(self, client: Client, conversations: Conversations) -> None:
        self._client = client
        self._reader = conversations.reader
        self._data_keys = conversations.data_keys
        self._erasures = conversations.erasures
        self._branches = conversations.branches


def require_version(standing: State | Page, if_match: str) -> None:
    """Raise PreconditionFailed when ``if_match`` names another state."""
    if if_match not in ("", "*", standing.etag):
        raise script_calls.moved(standing.version, standing.etag)


def no_entry() -> NotFound:
    """Return the problem of an entry that is not there."""
    ways = "its seq (…/messages/7), or by `id:` and its own id (…/messages/id:m-7)"
    return NotFound(f"There is no such message. A message is named by {ways}.")


def busy() -> Conflict:
    """Return the problem of a conversation that others change again and again."""
    return Conflict("The conversation changes faster than this can be done; try again.", headers={"Retry-After": "1"})
