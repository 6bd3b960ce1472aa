"""Finds the changes between two versions of openapi.json that break clients generated from the old one.

A new version may require less of a request and promise more in an answer. These changes break a client::

                     request                              answer
    values           fewer types, words, alternatives     more types, words, alternatives
    members          newly required, or refused           removed, or no longer always present
    bounds           tighter                              -
    names            operations, parameters, tags, schemas: generated code is named after them

``python tests/clients/breaking.py old.json new.json`` prints one line for each breaking change.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]
Direction = Literal["request", "answer"]
METHODS = ("get", "post", "put", "patch", "delete")
LOWER = ("minimum", "minLength", "minItems")
ECHOED = frozenset({"Document"})
"""Schemas of what a client itself sends. A new alternative is in an answer only where a client sends it, and so is an object
without a member that it needed before."""
LOOSER = {"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": frozenset({r"^(?!\.{1,2}$)[^\x00-\x1f\x7f-\x9f]{1,256}$"})}
"""Patterns that take every value of another one: those of owners' ids take all that were ids before."""
UPPER = ("maximum", "maxLength", "maxItems")


def breaking_changes(old: Json, new: Json) -> list[str]:
    """Return one line for each breaking change; changes that only add have no line."""
    return sorted(set(Comparison(old, new).changes()))


def may_break(old_version: str, new_version: str) -> bool:
    """Return whether Semantic Versioning allows breaking changes: a new major version, or a new minor one before 1.0."""
    old, new = ([int(part) for part in each.split(".")[:2]] for each in (old_version, new_version))
    return new[0] > old[0] or (new[0] == old[0] == 0 and new[1] > old[1])


class Comparison:
    """Compares two OpenAPI documents, part by part."""

    def __init__(self, old: Json, new: Json) -> None:
        self.old = old
        self.new = new
        self._seen: set[tuple[str, str, Direction]] = set()

    def changes(self) -> Iterator[str]:
        """Yield a line for each breaking change."""
        for path, item in self.old["paths"].items():
            for method in METHODS:
                if method in item:
                    changed = self.new["paths"].get(path, {}).get(method)
                    place = f"{method.upper()} {path}"
                    yield from self.operation(place, item[method], changed) if changed else [f"{place}: gone"]
        for name in self.old["components"]["schemas"].keys() - self.new["components"]["schemas"].keys():
            yield f"schema {name}: gone"

    def operation(self, place: str, old: Json, new: Json) -> Iterator[str]:
        for key in ("operationId", "tags"):
            if old[key] != new[key]:
                yield f"{place}: {key} was {old[key]}, is {new[key]}"
        if old.get("security") == [] and new.get("security") != []:
            yield f"{place}: needs a key now"
        yield from self.parameters(place, old, new)
        yield from self.body(place, old.get("requestBody"), new.get("requestBody"))
        for status, answer in old["responses"].items():
            if status in new["responses"]:
                where = f"{place} {status}"
                yield from self.answer(
                    where, resolved(self.old, answer)[0], resolved(self.new, new["responses"][status])[0]
                )
            else:
                yield f"{place}: no longer answers {status}"
        for status in new["responses"].keys() - old["responses"].keys():
            if status < "400":
                yield f"{place}: answers {status} now"

    def parameters(self, place: str, old: Json, new: Json) -> Iterator[str]:
        before, after = (
            {
                (each["in"], each["name"]): each
                for each in (resolved(root, one)[0] for one in side.get("parameters", ()))
            }
            for root, side in ((self.old, old), (self.new, new))
        )
        for key, parameter in before.items():
            where = f"{place} parameter {key[1]}"
            if key not in after:
                yield f"{where}: gone"
                continue
            if after[key].get("required") and not parameter.get("required"):
                yield f"{where}: required now"
            yield from self.schema(where, parameter["schema"], after[key]["schema"], "request")
        for key in after.keys() - before.keys():
            if after[key].get("required"):
                yield f"{place} parameter {key[1]}: new and required"

    def body(self, place: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if old is None or new is None:
            if old is not None:
                yield f"{place}: takes no body now"
            elif new is not None and new.get("required"):
                yield f"{place}: needs a body now"
            return
        if new.get("required") and not old.get("required"):
            yield f"{place}: needs a body now"
        yield from self.contents(f"{place} body", old["content"], new["content"], "request")

    def answer(self, place: str, old: Json, new: Json) -> Iterator[str]:
        for header in old.get("headers", {}).keys() - new.get("headers", {}).keys():
            yield f"{place}: header {header} is gone"
        yield from self.contents(place, old.get("content", {}), new.get("content", {}), "answer")

    def contents(self, place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
        for media_type, media in old.items():
            if media_type in new:
                yield from self.schema(place, media["schema"], new[media_type]["schema"], direction)
            else:
                yield f"{place}: {media_type} is gone"

    def schema(self, place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
        old, old_name = resolved(self.old, old)
        new, new_name = resolved(self.new, new)
        if old_name in (others := alternatives(self.new, new)) and (direction == "request" or new_name in ECHOED):
            new, new_name = resolved(self.new, others[old_name])  # it is one of several now
        if old_name and new_name:
            if (old_name, new_name, direction) in self._seen:
                return
            self._seen.add((old_name, new_name, direction))
            place = f"{new_name} ({direction})"
        before, after = alternatives(self.old, old), alternatives(self.new, new)
        for name in before if direction == "request" else after:
            if direction == "answer" and new_name in ECHOED:
                continue
            if name not in (after if direction == "request" else before):
                yield f"{place}: {name} is {'refused' if direction == 'request' else 'new'}"
        for name in before.keys() & after.keys():
            if before[name] is not old or after[name] is not new:
                yield from self.schema(f"{place} {name}", before[name], after[name], direction)
        yield from self.values(place, old, new, direction)
        yield from self.members(place, old, new, direction)
        if "items" in old and "items" in new:
            yield from self.schema(f"{place}[]", old["items"], new["items"], direction)

    def values(self, place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
        if is_either(old) or is_either(new):
            return  # the alternatives were compared one by one
        before, after = words(old), words(new)
        lost = after is not None and (before is None or bool(before - after))
        gained = before is not None and (after is None or bool(after - before))
        if lost if direction == "request" else gained:
            yield f"{place}: values were {sorted(before or ())}, are {sorted(after or ())}"
        if old.get("format") != new.get("format"):
            yield f"{place}: format was {old.get('format')}, is {new.get('format')}"
        if direction == "request":
            for key in LOWER:
                if new.get(key, float("-inf")) > old.get(key, float("-inf")):
                    yield f"{place}: {key} was {old.get(key)}, is {new[key]}"
            for key in UPPER:
                if new.get(key, float("inf")) < old.get(key, float("inf")):
                    yield f"{place}: {key} was {old.get(key)}, is {new[key]}"
            if "pattern" in new and new["pattern"] not in {old.get("pattern"), *LOOSER.get(old.get("pattern"), ())}:
                yield f"{place}: pattern was {old.get('pattern')}, is {new['pattern']}"

    def members(self, place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in before.keys() & after.keys():
            yield from self.schema(f"{place}.{name}", before[name], after[name], direction)
        gone = before.keys() - after.keys()
        if direction == "answer":
            yield from (f"{place}.{name}: gone" for name in gone)
            unsure = (set(old.get("required", ())) - set(new.get("required", ()))) - gone
            if place.partition(" ")[0] in ECHOED:
                return
            yield from (f"{place}.{name}: may be missing now" for name in unsure)
            return
        closed = new.get("additionalProperties") is False
        yield from (f"{place}.{name}: refused" for name in gone if closed)
        yield from (
            f"{place}.{name}: required now" for name in set(new.get("required", ())) - set(old.get("required", ()))
        )
        if closed and old.get("additionalProperties") is not False and old.get("type") == "object":
            yield f"{place}: unknown members are refused now"


def resolved(root: Json, node: Json) -> tuple[Json, str]:
    """Return the object that a node refers to, and its component's name; without a reference, the node and an empty name."""
    name = ""
    while "$ref" in node:
        _, _, kind, name = node["$ref"].split("/")
        node = root["components"][kind][name]
    return node, name


def is_either(schema: Json) -> bool:
    """Return whether a value has one of several schemas or types."""
    return "oneOf" in schema or "anyOf" in schema or isinstance(schema.get("type"), list)


def alternatives(root: Json, schema: Json) -> dict[str, Json]:
    """Return the alternatives of a value, by the name of their component or type."""
    found: dict[str, Json] = {}
    for each in schema.get("oneOf") or schema.get("anyOf") or ():
        inner, name = resolved(root, each)
        found |= alternatives(root, inner) if is_either(inner) else {name or str(inner.get("type")): each}
    if found:
        return found
    types = schema.get("type", [])
    if isinstance(types, str):
        return {types: schema}
    return {each: {"type": each} if each == "null" else {**schema, "type": each} for each in types}


def words(schema: Json) -> set[str] | None:
    """Return the only values that a schema allows; None if it does not list values."""
    if "const" in schema:
        return {str(schema["const"])}
    return {str(each) for each in schema["enum"]} if "enum" in schema else None


if __name__ == "__main__":
    documents = [json.loads(Path(name).read_bytes()) for name in sys.argv[1:3]]
    lines = breaking_changes(*documents)
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
