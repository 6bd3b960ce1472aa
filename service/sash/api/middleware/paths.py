"""The framework's paths: as templates, and the methods of each, for layers that run before the router."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

from litestar.handlers import HTTPRouteHandler

_ALIKE = 0.7
"""The likeness of two words of paths of which one is probably meant for the other."""
_ELSEWHERE = {
    "health": "GET /livez says whether the process lives, GET /readyz whether it may take traffic",
    "swagger": "GET /docs has all calls, and GET /openapi.json the contract",
    "completions": "Sash does not call the model: send a window's 'request' to your provider",
    "responses": "Sash does not call the model: send a window's 'request' to your provider",
}
"""Hints for paths of other services, by the last word of the path."""
_SAME = dict.fromkeys(("healthz", "healthcheck", "ping", "alive", "ready"), "health") | dict.fromkeys(
    ("swagger-ui", "swagger.json", "redoc", "api-docs"), "swagger"
)
_LONGEST_WORD = 40
"""Characters of the longest word that is compared."""


class Paths:
    """The path templates of all routes, each with its methods."""

    def __init__(self, routes: Sequence[HTTPRouteHandler], summaries: Mapping[str, str]) -> None:
        """``summaries`` say what an operation does, by its id."""
        self._summaries = summaries
        templates: dict[str, dict[str, str]] = {}
        for route in routes:
            for path in route.paths:
                templates.setdefault(path, {}).update(dict.fromkeys(route.http_methods, str(route.operation_id)))
        ordered = sorted(templates, key=lambda path: path.count("{"))  # words before parameters, like the router
        self._templates = [(_pattern(path), templates[path]) for path in ordered]
        self._words = [template_of(path).strip("/").split("/") for path in ordered]

    def methods(self, path: str) -> frozenset[str]:
        """The methods of the routes at ``path``; empty if the path is unknown."""
        return frozenset(self._operations(path))

    def operation(self, method: str, path: str) -> str | None:
        """The id of the operation that the router would choose; None if the path is unknown, or does not take the method."""
        return self._operations(path).get(method)

    def calls(self, path: str) -> list[str]:
        """The methods at ``path``, each with what it does: ``POST (Append messages)``."""
        return [f"{method} ({self._summaries[each]})" for method, each in sorted(self._operations(path).items())]

    def meant_by(self, path: str) -> str:
        """What an unknown path was probably meant for, as the end of its sentence; empty if nothing is alike."""
        given = path.strip("/").split("/")
        if last := _ELSEWHERE.get(_SAME.get(given[-1], given[-1])):
            return f": {last}."
        if near := next(self._near(given), None):
            return f"; did you mean {near}?"
        if near := next(self._near(given[1:]), None):
            return f"; did you mean {near}? Paths have no prefix such as /{given[0]}."
        for words in self._words:
            if len(words) > len(given) and words[-len(given) :] == given:
                return f"; did you mean /{'/'.join(words)}?"
        return ""

    def below(self, words: int, first: str) -> list[str]:
        """The last words of the paths below a resource: paths of so many words that begin with ``first``."""
        return sorted(
            {each[-1] for each in self._words if len(each) == words and each[0] == first and each[-1][0] != "{"}
        )

    def _near(self, given: Sequence[str]) -> Iterator[str]:
        """The paths of as many words, each like the one in its place. Any word may stand for a parameter."""
        for words in self._words:
            if len(words) == len(given) and all(map(_is_alike, words, given)):
                yield "/" + "/".join(words)

    def _operations(self, path: str) -> Mapping[str, str]:
        for pattern, operations in self._templates:
            if pattern.fullmatch(path):
                return operations
        return {}


def _is_alike(word: str, given: str) -> bool:
    if word.startswith("{") or len(given) > _LONGEST_WORD:
        return word.startswith("{")
    return difflib.SequenceMatcher(None, word, given.lower()).ratio() >= _ALIKE


def template_of(path: str) -> str:
    """The framework's path as a template of OpenAPI: ``{seq:str}`` becomes ``{seq}``."""
    return re.sub(r":\w+\}", "}", path)


def with_head(allowed: str) -> str:
    """The methods of an Allow header, with HEAD beside GET: the middleware answers it."""
    return allowed.replace("GET", "GET, HEAD")


def _pattern(path: str) -> re.Pattern[str]:
    kinds = re.compile(r"\\\{\w+:(\w+)\\\}")
    return re.compile(kinds.sub(lambda kind: ".+" if kind[1] == "path" else "[^/]+", re.escape(path)))
