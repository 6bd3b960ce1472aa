"""The Claude Agent SDK's ``SessionStore`` over a Sash server: transcripts as conversations of their project.

``SashSessionStore`` has the protocol's methods, but for summaries, and imports no SDK. An entry's metadata has the line of
the transcript; its message has the words, so that windows, search and the dashboard show the chat. (Written for
claude-agent-sdk 0.2.)
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sash_client.chat import kept_in, text_of
from sash_client.client import LOCAL, Ask, Sash, SashError, TokenEndpoint, append, asked, listed, paged, path_of
from sash_client.ids import safe_id

METADATA = "claude_agent"
_ROLES = ("user", "assistant")


class SashSessionStore:
    """A store for ``ClaudeAgentOptions(session_store=…)``: a session that one machine saves can be resumed on another.

    The conversation of a transcript is named after project, session and subpath; its owner is the project, so that
    ``DELETE /owners/{owner}`` erases all of it. A refused request raises ``SashError``; the SDK says that the mirror failed.
    """

    def __init__(self, *, url: str = LOCAL, api_key: str | None = None) -> None:
        self.sash = Sash(url, api_key)
        self._known: set[str] = set()

    async def append(self, key: Mapping[str, str], entries: Sequence[Any]) -> None:
        """Append lines of a transcript, 100 a request; one whose uuid is stored is not stored again. Raises SashError."""
        if entries:
            await self.sash.ado(self._append(_names(key), entries))

    async def load(self, key: Mapping[str, str]) -> list[Any] | None:
        """All lines of a transcript as they were appended; None where there is none. Raises SashError."""
        stored = await self.sash.ado(listed(_path(_names(key))))
        return [kept_in(entry, METADATA) for entry in stored] or None

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """The sessions of a project, with the time of their last change in milliseconds. Raises SashError."""
        found = await self.sash.ado(_transcripts(project_key))
        return [
            {"session_id": names[1], "mtime": int(datetime.fromisoformat(each["updated_at"]).timestamp() * 1000)}
            for names, each in found
            if len(names) == _MAIN
        ]

    async def list_subkeys(self, key: Mapping[str, str]) -> list[str]:
        """The subpaths of a session. Raises SashError."""
        found = await self.sash.ado(_transcripts(key["project_key"]))
        return [names[2] for names, _ in found if names[1] == key["session_id"] and len(names) > _MAIN]

    async def delete(self, key: Mapping[str, str]) -> None:
        """Erase a transcript; a session's with those of its subpaths. Raises SashError."""
        wanted = _names(key)
        for names in {(*wanted,), *((*each,) for each, _ in await self.sash.ado(_transcripts(wanted[0])))}:
            if [*names[: len(wanted)]] == wanted:
                self._known.discard(_path(names))
                await self.sash.ado(asked(Ask("DELETE", _path(names))))

    def _append(self, names: list[str], entries: Sequence[Any]) -> TokenEndpoint[None]:
        path = _path(names)
        if path not in self._known:
            body = {"id": path.rpartition("/")[2], "owner": safe_id(names[0]), "metadata": {METADATA: names}}
            try:
                yield from asked(Ask("POST", "/conversations", body=body))
            except SashError as error:
                if not error.exists:
                    raise
            self._known.add(path)
        yield from append(path, list(map(_entry, entries)))


_MAIN = 2
"""The names of a session's own transcript: project and session. A subagent's has its subpath besides."""


def _names(key: Mapping[str, str]) -> list[str]:
    return [key["project_key"], key["session_id"], *([key["subpath"]] if "subpath" in key else [])]


def _path(names: Sequence[str]) -> str:
    return path_of("/".join([*names, ""]))


def _transcripts(project: str) -> TokenEndpoint[list[tuple[list[str], dict[str, Any]]]]:
    """The conversations of a project's transcripts, with their names."""
    found = yield from paged("/conversations", "conversations", {"owner": safe_id(project)})
    named = [((each.get("metadata") or {}).get(METADATA) or [], each) for each in found]
    return [(names, each) for names, each in named if names[:1] == [project]]


def _entry(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line as an entry: what is no word of user or assistant is a reply without words, which no window has."""
    said = line.get("message") if line.get("type") in _ROLES else None
    text = text_of(said) if isinstance(said, Mapping) else ""
    message = {"role": line["type"] if text else "assistant", "content": text}
    return {"message": message, "metadata": {METADATA: line}} | (
        {"id": safe_id(line["uuid"])} if "uuid" in line else {}
    )
