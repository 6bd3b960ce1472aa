"""A model's figures as bytes, without its name: what its windows were made with is kept under a digest of them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sash.core.counts.models.families import Rules
from sash.core.counts.models.models import Model
from sash.core.counts.models.vendors import VendorRules
from sash.core.counts.text.vocabularies import Vocabulary

_AnyRules = Rules | VendorRules
_SOME_RULES = {"type": "Rules", "family": ""}


def encode_model(model: Model) -> bytes:
    """The model's figures. Of a vocabulary they have the name."""
    return _encoder.encode(msgspec.structs.replace(model, id=""))


def decode_model(kept: bytes, name: str, vocabularies: Mapping[str, Vocabulary]) -> Model | None:
    """The model called ``name`` with these figures; None if this release cannot read them, or lacks the vocabulary."""

    def known(kind: type, value: Any) -> Any:
        if kind is not Vocabulary:
            raise NotImplementedError
        return vocabularies[value]

    try:
        given = msgspec.msgpack.decode(kept)
        rules = msgspec.convert(given["rules"], _AnyRules)
        found = msgspec.convert({**given, "rules": _SOME_RULES}, Model, dec_hook=known)
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return msgspec.structs.replace(found, id=name, rules=rules)


def _name_of(value: Any) -> Any:
    if not isinstance(value, Vocabulary):
        raise NotImplementedError
    return value.name


_encoder = msgspec.msgpack.Encoder(enc_hook=_name_of)
