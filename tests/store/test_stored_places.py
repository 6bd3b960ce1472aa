"""What is stored as a list has its members by their places: data of this layout is read by all versions that know it."""

import msgspec
import pytest

from sash.core.counts.measures.measures import Extra, Measure
from sash.core.counts.measures.media_facts import Medium
from sash.core.counts.measures.native_parts import NativeParts
from sash.core.counts.measures.reasoning import Reasoning
from sash.core.counts.text.unicode_scripts import Mix
from sash.core.stored.details import Details
from sash.core.stored.split_media import StoredMedium
from sash.core.stored.stored_grounding import DocumentSource, StoredGrounding
from sash.store.data.sealing import Wrapped

PLACES: dict[type[msgspec.Struct], str] = {
    Extra: (
        "name calls call_names call_arguments together legacy_call has_text listed padding images estimated "
        "unpriced reasoning opens_list closes_list heading bare_names beside pages paged mix call_objects "
        "calls_mix parts together_objects call_compact odd unfitted spoken pictured heard sounded media named"
    ),
    Measure: "role o200k cl100k extra",
    Medium: (
        "kind media_type size width height pages tokens paged form is_linked in_reasoning heard sounded "
        "issuer until lasts name"
    ),
    NativeParts: (
        "format size native_reasoning reasoning_sealed rest rest_sealed images estimated only "
        "reasoning_images mix wrappings apart told identified stored texts_sealed sent lost"
    ),
    Reasoning: "plain blocks signatures mix",
    Mix: "size digits shares characters marks capitals",
    Details: "digest id stamp row extra grounding status digits links media parts author audience party_digest",
    StoredMedium: "offset name length size type is_base64 width height place",
    DocumentSource: "title url metadata",
    StoredGrounding: "template start end documents shorter sources",
    Wrapped: "master created_ms box",
}


@pytest.mark.parametrize("stored", PLACES)
def test_new_members_come_last(stored: type[msgspec.Struct]) -> None:
    """A new member stands behind those of before; where one is moved or taken out, the data has a new layout."""
    known = PLACES[stored].split()
    assert list(stored.__struct_fields__[: len(known)]) == known
    assert stored.__struct_config__.array_like
