"""Vocabularies on this machine: from installed packages, and from an operator's own files."""

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from sash.core.counts.costs.counting import count_request, plain_text_tokens
from sash.core.counts.costs.estimates import estimate_text
from sash.core.counts.models.families import ASSISTANT, USER
from sash.core.counts.models.models import OwnModels, find_model, load_models_toml
from sash.core.counts.models.vendors import VendorRules
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.counts.text.vocabularies import INSTALLED, find_files
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

TRUTH = Path(__file__).parents[1] / "truth"
PARAGRAPHS: dict[str, str] = tomllib.loads((TRUTH / "languages.toml").read_text("utf-8"))
COUNTS = json.loads((TRUTH / "languages.json").read_text("utf-8"))


@pytest.mark.parametrize("name", ["qwen3.5", "deepseek", "tekken"])
def test_an_installed_vocabulary_counts_as_its_vendor_does(name: str) -> None:
    """Texts in 70 languages, and numbers, have as many tokens as the vendor's own code gives them."""
    for language, text in PARAGRAPHS.items():
        assert INSTALLED[name].count(text) == COUNTS["languages"][language][name]
    for numbers in COUNTS["numbers"]:
        assert INSTALLED[name].count(numbers["text"]) == numbers[name]


@pytest.mark.parametrize("name", ["qwen3.5", "deepseek", "tekken"])
@pytest.mark.parametrize(
    "text", ["", "<|im_end|>", "<\uff5cUser\uff5c>", "[INST]", "</s>", "\ufffd\u0000", " " * 1_200_000]
)
def test_any_text_can_be_counted(name: str, text: str) -> None:
    """Special tokens are counted as plain characters, and unusual or long texts can be counted."""
    count = INSTALLED[name].count(text)
    assert count > 1 if 0 < len(text) < 20 and text[0] in "<[" else count >= 0


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("qwen3.5-plus", "qwen3.5"),
        ("deepseek-v4-pro", "deepseek"),
        ("deepseek/deepseek-chat", "deepseek"),
        ("mistral-medium-latest", "tekken"),
        ("devstral-small", "tekken"),
    ],
)
def test_a_model_counts_in_its_vocabulary_at_once(model: str, name: str) -> None:
    """A request costs the tokens of its text in the vendor's vocabulary, and the tokens around them."""
    found = find_model(model)
    assert (found.counting, found.counted_with, found.exact) == ("vocabulary", name, False)
    for text in PARAGRAPHS.values():
        counted = count_request(found, messages=[{"role": "user", "content": text}])
        assert counted.tokens == INSTALLED[name].count(text) + found.rules.role_costs[USER] + found.priming
        assert counted.encoding == name


def test_calls_and_names_count_in_the_vocabulary_too() -> None:
    """Names, calls and results are counted in the vendor's vocabulary too."""
    model, count = find_model("qwen3.5-plus"), INSTALLED["qwen3.5"].count
    arguments = '{"city": "ಬೆಂಗಳೂರು"}'
    called = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    plain, calls, result = count_request(
        model,
        messages=[
            {"role": "user", "name": "ana", "content": [{"type": "text", "text": "ಹವಾಮಾನ?"}]},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "a", "content": "ಬಿಸಿಲು"},
        ],
    ).messages
    rules = model.rules
    assert isinstance(rules, VendorRules)
    around = rules.call + rules.role_costs[ASSISTANT]
    assert plain == count("ಹವಾಮಾನ?") + count("ana") + rules.role_costs[USER] + rules.name
    assert calls == count("weather") + count(arguments) + around
    assert result == count("ಬಿಸಿಲು")


@pytest.mark.parametrize("form", ["anthropic", "gemini"])
@pytest.mark.parametrize("name", ["qwen3.5-plus", "deepseek-v4-pro", "mistral-medium-latest"])
@pytest.mark.parametrize(
    "call",
    [
        *({"type": "function", "function": {"name": "look", "arguments": text}} for text in ("", "[1", '{"day": 1}')),
        {"type": "custom", "custom": {"name": "look", "input": "north"}},
    ],
)
def test_a_window_counts_arguments_as_they_are_sent(form: str, name: str, call: dict[str, Any]) -> None:
    """Arguments that are no object cost a window at least what their request counts, and at most three tokens more."""
    history: list[Any] = [
        {"role": "user", "content": "When?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", **call}]},
        {"role": "tool", "tool_call_id": "c1", "content": "At nine."},
    ]
    body = msgspec.json.encode({"model": name, "format": form, "messages": history})
    made, _ = window_of_request(decode_request(body)[0], {})
    request = msgspec.json.decode(made.body)["request"]
    counted = count_provider_request(form, request, find_model(name)).tokens
    assert counted <= made.head.tokens.total <= counted + 3


def test_a_model_without_a_vocabulary_is_an_estimate() -> None:
    """A model of Llama, whose vocabulary is not installed, is estimated."""
    model = find_model("llama-3.3-70b-instruct")
    assert (model.vocabulary, model.counting) == (None, "estimate")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an operator's folder: a tokenizer file, a file of ranks, one in a subfolder, and files that are neither."""
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(["hello world"] * 9, trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet))
    tokenizer.save(str(tmp_path / "kimi-k2.json"))
    ranks = b"".join(base64.b64encode(bytes([i])) + f" {i}\n".encode() for i in range(256))
    (tmp_path / "llama-3").mkdir()
    (tmp_path / "llama-3" / "tokenizer.model").write_bytes(ranks + base64.b64encode(b"he") + b" 256\n")
    (tmp_path / "llama-3.3.tiktoken").write_bytes(ranks + base64.b64encode(b"llo") + b" 256\n")
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_an_operators_files_count_for_models_with_their_name(folder: Path) -> None:
    """A model is counted with the file that has the longest name within the model's name, whichever kind of file it is."""
    own = OwnModels({}, find_files(folder))

    counted = {
        name: find_model(name, own).counted_with for name in ("moonshotai/kimi-k2-instruct", "llama-3-8b-instruct")
    }

    assert counted == {"moonshotai/kimi-k2-instruct": "kimi-k2", "llama-3-8b-instruct": "llama-3"}
    assert find_model("llama-3.3-70b-instruct", own).counted_with == "llama-3.3"
    assert plain_text_tokens("hello hello", find_model("kimi-k2", own)) < 8
    assert plain_text_tokens("hello", find_model("llama-3-8b-instruct", own)) == 4
    assert find_model("kimi-k2", own).margin == 1.0
    assert find_model("gpt-4o", own) == find_model("gpt-4o")
    assert find_model("llama-4-maverick", own).vocabulary is None


def test_a_deployments_own_model_counts_with_a_file_of_its_name(folder: Path) -> None:
    """A model of the models file is counted with the vocabulary whose name its own name contains."""
    models_file = load_models_toml(
        '[models."our-kimi-k2"]\ncontext_window = 9000\n[models.plain]\ncontext_window = 9000'
    )
    own = OwnModels(models_file, find_files(folder))
    assert find_model("our-kimi-k2", own).counted_with == "kimi-k2"
    assert find_model("plain", own).vocabulary is None


@pytest.mark.parametrize(("name", "tokens"), [("llama-4", 4), ("llama-3", 3)])
def test_ranks_of_llama_4_split_words_at_capitals(tmp_path: Path, name: str, tokens: int) -> None:
    """A token across a small letter and a capital counts with ranks of Llama 3, not of Llama 4. No network is used."""
    ranks = b"".join(base64.b64encode(bytes([i])) + f" {i}\n".encode() for i in range(256))
    (tmp_path / f"{name}.tiktoken").write_bytes(ranks + base64.b64encode(b"oW") + b" 256\n")

    assert find_files(tmp_path)[name].count("loWo") == tokens


def test_a_file_that_is_no_vocabulary_says_so(tmp_path: Path) -> None:
    """A broken file raises an error with its name when it is first used."""
    (tmp_path / "broken.json").write_text("{}")
    (tmp_path / "broken2.tiktoken").write_text("not ranks")
    for vocabulary in find_files(tmp_path).values():
        with pytest.raises(ValueError, match=vocabulary.name):
            vocabulary.count("hello")
        assert not vocabulary.is_loaded


@pytest.mark.slow
def test_an_installed_vocabulary_is_never_above_its_estimate() -> None:
    """An estimate, which is used until a text was counted, is never below the count."""
    for name in INSTALLED:
        for text in PARAGRAPHS.values():
            assert INSTALLED[name].count(text) <= estimate_text(text, name)
