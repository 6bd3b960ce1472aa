"""The framework's paths: as templates, and the methods of each, for layers that run before the router."""

import re
from collections.abc import Mapping, Sequence

from litestar.handlers import HTTPRouteHandler


class Paths:
    """The path templates of all routes, each with its methods."""

    def __init__(self, routes: Sequence[HTTPRouteHandler]) -> None:
        templates: dict[str, dict[str, str]] = {}
        for route in routes:
            for path in route.paths:
                templates.setdefault(path, {}).update(
                    {method: str(route.operation_id) for method in route.http_methods}
                )
        ordered = sorted(templates, key=lambda path: path.count("{"))  # words before parameters, like the router
        self._templates = [(_pattern(path), templates[path]) for path in ordered]

    def methods(self, path: str) -> frozenset[str]:
        """The methods of the routes at ``path``; empty if the path is unknown."""
        return frozenset(self._operations(path))

    def operation(self, method: str, path: str) -> str | None:
        """The id of the operation that the router would choose; None if the path is unknown, or does not take the method."""
        return self._operations(path).get(method)

    def _operations(self, path: str) -> Mapping[str, str]:
        for pattern, operations in self._templates:
            if pattern.fullmatch(path):
                return operations
        return {}


def template_of(path: str) -> str:
    """The framework's path as a template of OpenAPI: ``{seq:str}`` becomes ``{seq}``."""
    return re.sub(r":\w+\}", "}", path)


def _pattern(path: str) -> re.Pattern[str]:
    kinds = re.compile(r"\\\{\w+:(\w+)\\\}")
    return re.compile(kinds.sub(lambda kind: ".+" if kind[1] == "path" else "[^/]+", re.escape(path)))
