"""The framework's paths: as templates, and the methods of each, for layers that run before the router."""

import re
from collections.abc import Sequence

from litestar.handlers import HTTPRouteHandler


class Paths:
    """The path templates of all routes, each with its methods."""

    def __init__(self, routes: Sequence[HTTPRouteHandler]) -> None:
        templates: dict[str, set[str]] = {}
        for route in routes:
            for path in route.paths:
                templates.setdefault(path, set()).update(route.http_methods)
        ordered = sorted(templates, key=lambda path: path.count("{"))  # words before parameters, like the router
        self._templates = [(_pattern(path), frozenset(templates[path])) for path in ordered]

    def methods(self, path: str) -> frozenset[str]:
        """The methods of the routes at ``path``; empty if the path is unknown."""
        for pattern, methods in self._templates:
            if pattern.fullmatch(path):
                return methods
        return frozenset()


def template_of(path: str) -> str:
    """The framework's path as a template of OpenAPI: ``{seq:str}`` becomes ``{seq}``."""
    return re.sub(r":\w+\}", "}", path)


def _pattern(path: str) -> re.Pattern[str]:
    kinds = re.compile(r"\\\{\w+:(\w+)\\\}")
    return re.compile(kinds.sub(lambda kind: ".+" if kind[1] == "path" else "[^/]+", re.escape(path)))
