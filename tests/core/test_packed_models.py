"""A model's figures are the same after they were kept."""

import msgspec

from sash.core.counts.models.models import find_model, list_models, unknown_model
from sash.core.counts.models.packed_models import decode_model, encode_model
from sash.core.counts.text.vocabularies import INSTALLED, Vocabulary


def test_every_models_figures_come_back() -> None:
    """The figures have no name, and get the one that they are asked for."""
    own = Vocabulary("own", "a file", lambda: len)
    models = [*list_models(), unknown_model("new"), msgspec.structs.replace(find_model("gpt-4o"), vocabulary=own)]
    for model in models:
        kept = encode_model(model)
        assert decode_model(kept, model.id, {**INSTALLED, "own": own}) == model


def test_figures_of_another_release_are_read_or_not() -> None:
    """Members that are not known are left out; a vocabulary that is not installed, or no figures at all, give None."""
    kept = msgspec.msgpack.decode(encode_model(find_model("gpt-4o")))
    assert decode_model(msgspec.msgpack.encode({**kept, "new": 1}), "gpt-4o", {}) == find_model("gpt-4o")
    assert decode_model(msgspec.msgpack.encode({**kept, "vocabulary": "lost"}), "gpt-4o", {}) is None
    assert decode_model(b"\xc0", "gpt-4o", {}) is None
