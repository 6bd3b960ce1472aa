"""Exact counts of models whose maker's vocabulary an operator brings: in the maker's form alone, for shapes that bills have
shown, and until a bill is higher.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from profiles import examples
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from sash.core.counts.models.models import Model, OwnModels, find_model
from sash.core.counts.requests.calibration import ModelReports
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.counts.text.vocabularies import find_files
from sash.store.data.usage import applied_correction, corrected_by
from sash.windows.counted import count_in_format
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

NAME = "gemini-2.5-flash"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> OwnModels:
    """Return the models of an operator who brings a vocabulary for Gemini: a made-up one, of 270 tokens."""
    folder: Path = tmp_path_factory.mktemp("tokenizers")
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(["hello world"] * 9, trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet))
    (folder / "gemini").mkdir()
    tokenizer.save(str(folder / "gemini" / "tokenizer.json"))
    return OwnModels({}, find_files(folder))


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


PLAIN: dict[str, Any] = {
    "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
    "contents": [said("hello"), said("world", "model"), said("hello world")],
}


def test_text_is_counted_in_the_vocabulary_and_a_token_each(own: OwnModels) -> None:
    """A request of text costs its tokens in the maker's vocabulary, one a content, and one for the system text."""
    model = find_model(NAME, own)
    assert model.vocabulary is not None
    count = model.vocabulary.count

    counted = count_in_format(PLAIN, model, "gemini")

    assert counted.tokens == sum(map(count, ("Be brief.", "hello", "world", "hello world"))) + 4
    assert (counted.exact, counted.counting) == (True, "exact")


@pytest.mark.parametrize(
    "more",
    [
        {"cachedContent": "cachedContents/1"},
        {"generationConfig": {"mediaResolution": "MEDIA_RESOLUTION_LOW"}},
        {"tools": [{"functionDeclarations": [{"name": "look"}]}]},
        {"tools": [{"googleSearch": {}}]},
    ],
)
def test_what_no_bill_has_shown_is_no_exact_count(own: OwnModels, more: dict[str, Any]) -> None:
    """A cache, another resolution, definitions and hosted tools leave a count an estimate."""
    assert not count_provider_request("gemini", PLAIN | more, find_model(NAME, own)).exact


def test_only_the_makers_own_form_is_exact(own: OwnModels) -> None:
    """The same model in chat completions is estimated, and so is one without the vocabulary."""
    model, chat = find_model(NAME, own), {"messages": [{"role": "user", "content": "hello"}]}
    assert not count_provider_request("openai", chat, model).exact
    assert not count_provider_request("gemini", PLAIN, find_model(NAME)).exact


def test_a_bill_above_the_count_makes_it_an_estimate(own: OwnModels) -> None:
    """Bills that are equal or lower correct nothing; a higher one does, and then no count is exact."""
    model = find_model(NAME, own)
    agreed, higher = (
        corrected_by(model, applied_correction(model, ModelReports(2, 0, 0, ratios)))
        for ratios in ((1.0, 0.9), (1.0, 1.2))
    )
    assert count_provider_request("gemini", PLAIN, agreed).exact
    raised = count_provider_request("gemini", PLAIN, higher)
    assert not raised.exact
    assert raised.tokens > count_provider_request("gemini", PLAIN, agreed).tokens


def window(own: OwnModels, messages: list[dict[str, Any]], **more: Any) -> tuple[dict[str, Any], Model]:
    """Return a window of these chat messages in Gemini's form, and its model."""
    body = msgspec.json.encode({"model": NAME, "format": "gemini", "messages": messages, **more})
    made: dict[str, Any] = msgspec.json.decode(window_of_request(decode_request(body)[0], own)[0].body)
    return made, find_model(NAME, own)


@pytest.mark.parametrize("system", [{}, {"system": "Be brief."}])
def test_a_window_of_turns_is_exact(own: OwnModels, system: dict[str, Any]) -> None:
    """A window of a system text and turns by turns says that it is exact, whichever of its turns fit."""
    turns = [{"role": ("user", "assistant")[place % 2], "content": f"hello {place}"} for place in range(9)]
    whole, model = window(own, turns, **system)
    part, _ = window(own, turns, limit=3, **system)
    for made in (whole, part):
        assert made["exact"]
        assert made["tokens"]["total"] == count_provider_request("gemini", made["request"], model).tokens
    assert not window(own, turns, tools=[TOOL], **system)[0]["exact"]


_TEXTS = st.sampled_from(["", " ", "a", "hello world", "12 talks", "\n\nlist", "Zürich", "今天天气很好", "\n"])
_ROLES = st.sampled_from(["user", "assistant", "user", "assistant", "system", "developer"])
_CONTENTS = _TEXTS | st.lists(_TEXTS, min_size=1, max_size=3).map(
    lambda parts: [{"type": "text", "text": part} for part in parts]
)
_SAID = st.fixed_dictionaries(
    {"role": _ROLES, "content": _CONTENTS}, optional={"name": st.sampled_from(["bob", "user"])}
)
_MORE = st.fixed_dictionaries(
    {},
    optional={
        "system": _TEXTS.filter(str.strip),
        "limit": st.integers(1, 4),
        "note": st.booleans(),
        "few_shots": st.just([{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}]),
    },
)


@examples(5)
@given(messages=st.lists(_SAID, max_size=7), more=_MORE)
@example(messages=[{"role": "system", "content": [{"type": "text", "text": " "}]}], more={})
def test_an_exact_window_is_what_its_request_is_counted(
    own: OwnModels, messages: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    """A window that says it is exact costs what its own request is counted, which is exact too."""
    made, model = window(own, [*messages, {"role": "user", "content": "hello"}], **more)
    counted = count_provider_request("gemini", made["request"], model)
    if made["exact"]:
        assert (counted.tokens, counted.exact) == (made["tokens"]["total"], True)
