"""How a provider is asked for a request's tokens: its address, its key, and where the tokens are in its answer."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from sash.core.providers.messages.pieces import Object


class TokenEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint that tells a request's input tokens: one that only counts, or one that replies and bills.

    ``url`` is the maker's address if none of ``url_variables`` is set. ``{model}`` in ``path`` stands for the model's name.
    ``fields`` are the members of a request that the endpoint takes; None stands for all. ``reply_tokens`` is the length of
    the shortest reply, which ``shortest`` asks for; 0 if the endpoint only counts. ``wrapped`` are the members, each in the
    one before it, that hold the request in the body; ``named`` stands before the model's name there, None without it.
    ``tokens`` is the path to the tokens in the answer.
    """

    url: str
    url_variables: tuple[str, ...]
    key_variables: tuple[str, ...]
    path: str
    tokens: tuple[str, ...]
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    headers: Mapping[str, str] = MappingProxyType({})
    fields: frozenset[str] | None = None
    reply_tokens: int = 0
    shortest: Mapping[str, int | Mapping[str, int]] = MappingProxyType({})
    shortest_elsewhere: Mapping[str, int | Mapping[str, int]] = MappingProxyType({})
    """In place of ``shortest``, for other makers' servers that take the form."""
    wrapped: tuple[str, ...] = ()
    named: str | None = None
    spread: str | None = None
    """The argument of the maker's SDK whose members stand beside the messages in a request."""

    schema: Callable[[str, Object], Object] | None = None
    """Returns the members of a request that ask for a reply of a JSON schema, from its name; None where none does."""

    def headers_with(self, key: str) -> dict[str, str]:
        """Return the headers of a request with this key."""
        return {"content-type": "application/json", **self.headers, self.key_header: f"{self.key_prefix}{key}"}

    def body(self, request: Object, model: str, *, is_makers: bool) -> Object:
        """Return the body that asks for a request's tokens; ``is_makers``: the maker itself is asked."""
        given = {name: value for name, value in request.items() if name != self.spread}
        given |= request.get(self.spread) or {} if self.spread is not None else {}
        sent = {name: value for name, value in given.items() if self.fields is None or name in self.fields}
        if self.wrapped:
            held = sent if self.named is None else {"model": f"{self.named}{model}", **sent}
            for name in reversed(self.wrapped):
                held = {name: held}
            return held
        shortest = self.shortest if is_makers else self.shortest_elsewhere
        others = {name: value for name, value in sent.items() if name not in {"stream", "stream_options", "n"}}
        within = {
            name: {**others.get(name, {}), **more} for name, more in shortest.items() if isinstance(more, Mapping)
        }
        return {**others, **shortest, **within, "model": model}

    def told(self, answer: object) -> int | None:
        """Return the tokens that an answer tells; None if it tells none."""
        for name in self.tokens:
            answer = answer.get(name) if isinstance(answer, dict) else None
        return answer if isinstance(answer, int) and not isinstance(answer, bool) else None
