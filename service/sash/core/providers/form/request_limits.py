"""The limits of a request beside its tokens: bytes, pictures, pages, tools, messages and names.

Each provider's file has its limits with their source (``Provider.limits``). A deployment's own models may set others,
because a gateway's limits, or those of a cloud that sells the model, can be smaller.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

_Most = Annotated[int, Meta(ge=1)]
Most = _Most | None
"""The largest number of something; None if it is not known, or if there is no limit."""


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The largest request that a provider takes. A limit that is not known is null, and is not kept."""

    bytes: Annotated[Most, Meta(description="Bytes of the request as JSON.")] = None
    images: Annotated[Most, Meta(description="Pictures in a request, also those in tool results.")] = None
    image_bytes: Annotated[Most, Meta(description="Bytes of one picture in base64.")] = None
    image_side: Annotated[Most, Meta(description="Pixels of a picture's longer side.")] = None
    many_images: Annotated[
        Most, Meta(description="The largest number of pictures for which `image_side` holds alone.")
    ] = None
    many_images_side: Annotated[
        Most, Meta(description="Pixels of a picture's longer side in a request with more than `many_images` pictures.")
    ] = None
    pages: Annotated[Most, Meta(description="Pages of all PDFs together.")] = None
    tools: Annotated[Most, Meta(description="Tool definitions.")] = None
    messages: Annotated[Most, Meta(description="Messages.")] = None
    tool_name: Annotated[Most, Meta(description="Characters of a tool's name.")] = None

    def replaced_by(self, other: "RequestLimits") -> "RequestLimits":
        """Return these limits, with those of ``other`` that are known in their place."""
        given = {name: value for name, value in msgspec.structs.asdict(other).items() if value is not None}
        return msgspec.structs.replace(self, **given) if given else self

    def within(self, other: "RequestLimits") -> "RequestLimits":
        """Return the smaller limit of both, for each that is known."""
        both = ((name, getattr(self, name), getattr(other, name)) for name in self.__struct_fields__)
        least = {name: min(own, given) if own and given else own or given for name, own, given in both}
        return RequestLimits(**least)


NO_LIMITS: Final = RequestLimits()
