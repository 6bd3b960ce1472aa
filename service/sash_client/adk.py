# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""The Google ADK's session service over a Sash server. (Written for google-adk 2.13; it comes with the extra ``adk``.)"""

from typing import Any
from uuid import uuid4

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from sash_client.adk_events import entry_id, to_entries, to_events
from sash_client.adk_state import change, create, name_of, owner_of, path_of_name, session_of, state_of
from sash_client.client import (
    LOCAL,
    Ask,
    Sash,
    SashError,
    TokenEndpoint,
    add,
    append,
    asked,
    before,
    listed,
    paged,
    turn,
    window_query,
)


class SashSessionService(BaseSessionService):
    """Sessions as conversations of their user, with their state in the conversations' metadata.

    ``get_session`` returns every event. With ``model`` it returns the events of the window for that model instead, so that
    a run begins with messages that fit. ``window`` are its parameters by name; ``reserve`` must have room for the run's
    additions: instructions, tools, the question and the reply. A ``GetSessionConfig`` with limits replaces the window.

    A refused request raises ``SashError``.
    """

    def __init__(
        self, *, url: str = LOCAL, api_key: str | None = None, model: str | None = None, **window: Any
    ) -> None:
        self.sash = Sash(url, api_key)
        self._window = window_query(model, window)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """A new session. Raises AlreadyExistsError, SashError."""
        name = (app_name, user_id, (session_id or "").strip() or str(uuid4()))
        try:
            await self.sash.ado(create(name))
        except SashError as error:
            if not error.exists:
                raise
            raise AlreadyExistsError(f"Session with id {name[2]} already exists.") from None
        await self.sash.ado(change(name, state or {}))
        found = await self.sash.ado(asked(Ask("GET", path_of_name(name))))
        return await self.sash.ado(session_of(found))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session with its events, None when there is none. Raises SashError."""
        path = path_of_name((app_name, user_id, session_id.strip()))
        if (found := await self.sash.ado(asked(Ask("GET", path)))) is None:
            return None
        session = await self.sash.ado(session_of(found))
        if config and (config.num_recent_events, config.after_timestamp) != (None, None):
            session.events = await self.sash.ado(_recent(path, config))
        elif self._window:
            session.events = to_events(await self.sash.ado(turn(path, [], self._window)))
        else:
            session.events = to_events((entry["message"], entry) for entry in await self.sash.ado(listed(path)))
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """A user's sessions in an app, without events, the newest activity last. Raises ValueError, SashError."""
        if user_id is None:
            raise ValueError("Sash lists the sessions of one user: pass user_id.")
        owner = {"owner": owner_of(app_name, user_id)}
        found = await self.sash.ado(paged("/conversations", "conversations", owner))
        ours = [each for each in reversed(found) if name_of(each)[:1] == [app_name] and name_of(each)[2:]]
        return ListSessionsResponse(sessions=[await self.sash.ado(session_of(each)) for each in ours])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session; the state of its user and app stays. Raises SashError."""
        await self.sash.ado(asked(Ask("DELETE", path_of_name((app_name, user_id, session_id.strip())))))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """A user's state in an app, by keys without prefix. Raises SashError."""
        return state_of(await self.sash.ado(asked(Ask("GET", path_of_name((app_name, user_id))))))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event; an event given again is not stored again, nor is a question that waits for its reply.

        What a rewind annuls becomes a branch. Raises SessionNotFoundError, SashError, ValueError.
        """
        if event.partial:
            return event
        name = (session.app_name, session.user_id, session.id)
        if await self.sash.ado(asked(Ask("GET", path_of_name(name)))) is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        path, is_known = path_of_name(name), any(known.id == event.id for known in session.events)
        if not is_known:
            event = await super().append_event(session, event)
            session.last_update_time = event.timestamp
        entries = list(to_entries(event))
        annulled = event.actions.rewind_before_invocation_id
        if is_known or annulled:
            await self.sash.ado(_append(path, session, annulled, entries))
        elif not (await self.sash.ado(add(path, entries)))["messages"]:
            _drop_waiting(session, event)
        await self.sash.ado(change(name, event.actions.state_delta))
        return event


def _append(path: str, session: Session, annulled: str | None, entries: list[dict[str, Any]]) -> TokenEndpoint[Any]:
    """Append an event's entries, those of a rewind in place of the invocation that it annuls, and all behind that."""
    first = next((each for each in session.events if annulled and each.invocation_id == annulled), None)
    after_seq, etag = (None, None) if first is None else (yield from before(path, entry_id(first, 0)))
    return (yield from append(path, entries, after_seq=after_seq, if_match=etag))


def _drop_waiting(session: Session, event: Event) -> None:
    """Leave the question out that was asked before in the same words, and got no reply: ``event`` stands for it."""
    waiting = [each for each in session.events if each.author == "user" and each is not event]
    if waiting and waiting[-1].content == event.content:
        session.events.remove(waiting[-1])


def _recent(path: str, config: GetSessionConfig) -> TokenEndpoint[list[Event]]:
    """The last events, or those since a time: entries are read from the newest on until there are enough."""
    wanted, since = config.num_recent_events, config.after_timestamp or 0.0
    limit = 64 if wanted is None else wanted
    while limit:
        entries = yield from listed(path, limit)
        events = to_events((entry["message"], entry) for entry in entries)
        if len(entries) < limit or len(events) > (wanted or limit) or events[0].timestamp < since:
            return [event for event in events[-(wanted or 0) :] if event.timestamp >= since]
        limit *= 2
    return []
