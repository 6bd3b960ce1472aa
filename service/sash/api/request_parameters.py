"""Path, query and header parameters, and the headers of answers."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta, field

from sash.api.openapi.components import Json, query_fields
from sash.core.chat.bounds import IDS
from sash.core.chat.messages import Id, OwnerId

_TAG: Final = '"8-nB3pXJw0m2vSdY6q-Zk4tQ1aL"'
_NEXT: Final = '</conversations/c-1/messages?order=asc&limit=100&cursor=YTEwMTpuQjNwWEp3MG0ydlNkWTZx>; rel="next"'


class Path(msgspec.Struct):
    """Every parameter of a path."""

    conversation_id: Annotated[Id, Meta(description="The conversation's id.", examples=["c-1"])]
    owner_id: Annotated[OwnerId, Meta(description="The owner's id, percent-encoded.", examples=["user-42"])]
    seq: Annotated[
        str,
        Meta(
            pattern=rf"^([1-9][0-9]{{0,15}}|id:{IDS.pattern})$",
            description="The message's sequence number, or `id:` and its own id, as in `id:m-7`.",
            examples=["7"],
        ),
    ]
    digest: Annotated[
        str, Meta(pattern="^[0-9a-f]{32}$", description="The digest of a picture or file.", examples=["0f" * 16])
    ]
    branch: Annotated[Id, Meta(description="The branch's id, from `GET …/branches`.", examples=["b-1"])]
    erasure_id: Annotated[
        Id, Meta(description="The erasure's id, from the answer to `DELETE /owners/{owner_id}`.", examples=["e-1"])
    ]
    model_id: Annotated[str, Meta(min_length=1, description="The model's name.", examples=["gpt-4o-mini"])]
    name: Annotated[str, Meta(description="The history tool's name.", examples=["history_search"])]
    slug: Annotated[str, Meta(description="The end of a problem's `type`.", examples=["window-does-not-fit"])]


class Conditions(msgspec.Struct):
    """Headers that make a request conditional, or safe to repeat."""

    if_match: Annotated[
        str,
        Meta(
            pattern=r'^(\*|(W/)?"[!#-~]*")$',
            description="Do this only if the conversation still has this ETag; `*` for any state. A conversation "
            "that does not exist yet and an owner have none.",
            examples=[_TAG],
        ),
    ] = field(name="If-Match")
    if_none_match: Annotated[
        str, Meta(description="Answer 304 if the conversation still has this ETag.", examples=[_TAG])
    ] = field(name="If-None-Match")
    idempotency_key: Annotated[
        str,
        Meta(
            pattern="^[!-~]{1,255}$",
            description="A request takes effect once under a key, for a day; a repeat is answered from what is there "
            "then. 1 to 255 visible ASCII characters.",
            examples=["k-1"],
        ),
    ] = field(name="Idempotency-Key")


def _header(description: str, example: str | int) -> Json:
    kind = "integer" if isinstance(example, int) else "string"
    return {"description": description, "schema": {"type": kind}, "example": example}


HEADERS: Final = {
    "ETag": _header(
        "One state of a conversation, for If-Match and If-None-Match. Opaque: send it back unchanged.", _TAG
    ),
    "Location": _header("The path of the new conversation, or of the erasure.", "/conversations/c-1"),
    "Link": _header('The next page, if there is one: `<…>; rel="next"` (RFC 8288).', _NEXT),
    "RetryAfter": _header("Seconds to wait before trying again.", 1),
    "Replayed": _header("`true` if this request took effect before, under the same Idempotency-Key.", "true"),
    "Authenticate": _header("The authentication scheme to use.", "Bearer"),
}
"""Headers of answers, by component name."""


def all_parameters(queries: Iterable[type[msgspec.Struct]], named: dict[str, Json]) -> Json:
    """All parameters by component name. Titled types in their schemas are added to ``named``."""
    found = dict(_parameters(Path, "path", "{}", named))
    found |= _parameters(Conditions, "header", "{}", named)
    for query in queries:
        for struct in {declarer(query, each): None for each in query.__struct_fields__}:
            fields = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
            own = {name for each, name in fields if declarer(struct, each) is struct}
            parameters = _parameters(struct, "query", struct.__name__ + ".{}", named)
            found |= {name: each for name, each in parameters if name.removeprefix(f"{struct.__name__}.") in own}
    return found


def declarer(query: type[msgspec.Struct], name: str) -> type[msgspec.Struct]:
    """The Struct that declares a parameter, after which its component is called: ``query``, or one that it extends."""
    structs = [each for each in query.__mro__ if issubclass(each, msgspec.Struct) and each is not msgspec.Struct]
    return [each for each in structs if name in each.__struct_fields__][-1]


def _parameters(
    struct: type[msgspec.Struct], place: str, template: str, named: dict[str, Json]
) -> Iterator[tuple[str, Json]]:
    fields, whole = query_fields(struct, named)
    for name, schema in fields.items():
        is_required = place == "path" or (place == "query" and name in whole.get("required", ()))
        parameter: Json = {"name": name, "in": place} | ({"required": True} if is_required else {})
        if "$ref" in schema:
            component = named[schema["$ref"].rpartition("/")[2]]
            schema["description"] = component["description"]
            if "oneOf" in component:
                parameter["explode"] = False  # otherwise Java clients take the value for an object with members
        if isinstance(schema.get("type"), list):
            schema["type"] = schema["type"][0]  # a missing parameter is left out, not null
            if "enum" in schema:
                schema["enum"] = [word for word in schema["enum"] if word is not None]
        yield template.format(name.replace("-", "")), parameter | _described(schema)


def _described(schema: Json) -> Json:
    """The schema in the form of headers and parameters: ``description`` and ``example`` are outside of ``schema``."""
    said: Json = {"description": schema.pop("description"), "schema": schema}
    return said | ({"example": schema.pop("examples")[0]} if "examples" in schema else {})
