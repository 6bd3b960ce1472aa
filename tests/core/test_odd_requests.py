"""Requests of shapes that bills showed to be counted wrong, each with the difference that was billed."""

from typing import Any

import msgspec
import pytest

from sash.core.counts.costs.counting import count_request
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import countable_model, find_model
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.counts.text import both
from sash.core.counts.text.unicode_scripts import family_tokens

_USER = {"role": "user", "content": "Tell me a joke about cats"}
_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
    "AABJRU5ErkJggg=="
)


def _tokens(model: str, messages: list[dict[str, Any]], **more: Any) -> int:
    return count_request(find_model(model), messages=messages, **more).tokens


def _tool(description: str) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return [{"type": "function", "function": {"name": "Users", "description": description, "parameters": parameters}}]


def test_the_request_of_backticks_costs_what_was_billed() -> None:
    """Definitions whose description has backticks cost two tokens more: billed 80."""
    properties = {"name": {"type": "string"}, "age": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties, "required": ["name", "age"]}
    told = "Correctly extracted `Users` with all the required parameters with correct types"
    tools = [{"type": "function", "function": {"name": "Users", "description": told, "parameters": parameters}}]
    messages = [
        {"role": "system", "content": "Extract the names and ages of all the users"},
        {"role": "user", "content": "Extract `Jason is 25 and Peter is 32`"},
    ]
    assert _tokens("gpt-3.5-turbo-0125", messages, tools=tools, tool_choice="required") == 80


def test_markdown_costs_nothing_beside_a_named_choice() -> None:
    """A named choice costs the same more than no choice, less two tokens if the description has backticks."""
    choice = {"type": "function", "function": {"name": "Users"}}
    plain, marked = (
        _tokens("gpt-4o", [_USER], tools=_tool(told), tool_choice=choice)
        - _tokens("gpt-4o", [_USER], tools=_tool(told))
        for told in ("Lists users", "Lists `users`")
    )
    assert marked == plain - 2


@pytest.mark.parametrize("model", ["o1", "o3", "o3-mini", "o4-mini"])
def test_a_choice_of_a_tool_is_free_for_reasoning_models(model: str) -> None:
    """A named choice costs an o model nothing, in chat and in Responses: billed 79."""
    choice = {"type": "function", "function": {"name": "Users"}}
    tools = _tool("Lists users")
    assert _tokens(model, [_USER], tools=tools, tool_choice=choice) == _tokens(model, [_USER], tools=tools)


def test_definitions_of_o3_in_responses_cost_what_was_billed() -> None:
    """A definition of two integers beside 38 tokens of text was billed 65."""
    properties = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    parameters = {"additionalProperties": False, "properties": properties, "type": "object"}
    text = "Use the add tool to compute 2 + 3. After the tool result arrives, respond with 'sum=<value>'."
    request = {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}],
        "tools": [
            {
                "type": "function",
                "name": "add",
                "description": "Add two integers",
                "strict": False,
                "parameters": parameters,
            }
        ],
    }
    assert count_provider_request("responses", request, find_model("o3")).tokens == 65


def test_texts_do_not_join_across_a_breakpoint() -> None:
    """A text that ends with a breakpoint of the cache is counted by itself: billed 20."""
    parts = [
        {
            "type": "text",
            "text": "Use this stable reference text as cacheable context.",
            "prompt_cache_breakpoint": {"mode": "explicit"},
        },
        {"type": "text", "text": "Now summarize it."},
    ]
    assert _tokens("gpt-5.6-terra", [{"role": "user", "content": parts}]) == 20


def test_a_picture_in_a_result_costs_at_least_its_tokens() -> None:
    """A result with a picture, which OpenAI takes, costs at least the picture more than the result without it."""
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = [_USER, {"role": "assistant", "content": None, "tool_calls": [call]}]
    text = {"type": "text", "text": "seen"}
    picture = {"type": "image_url", "image_url": {"url": _PIXEL}}
    bare, pictured = (
        _tokens("gpt-5", [*asked, {"role": "tool", "tool_call_id": "a", "content": content}])
        for content in ([text], [text, picture])
    )
    assert pictured - bare >= 70 + 140


def test_words_in_capitals_cost_claude_more() -> None:
    """A text in capitals costs Claude more than OpenAI's tokens say, and other makers nothing more."""
    text = "YOU MUST USE TOOLS WHEN REQUIRED AND ANSWER WITH ONLY THE RETURN VALUE. " * 10
    message = {"role": "user", "content": text}
    extra = measure(message).extra
    assert extra is not None
    assert extra.mix is not None
    assert extra.mix.capitals > 0
    pair = both(text)
    bare = msgspec.structs.replace(extra.mix, capitals=0)
    claude, other = ([family_tokens(*pair, mix, family) for mix in (bare, extra.mix)] for family in ("claude", "other"))
    assert claude[1] == claude[0] + extra.mix.capitals
    assert other[1] == other[0]


@pytest.mark.parametrize(
    ("name", "family", "assumed"),
    [
        ("solar-pro", "other", None),
        ("claude-sonnet-46", "claude-4.5", "claude-sonnet-4.6"),
        ("gemini-31-pro", "gemini-3.1", "gemini-3.1-pro"),
        ("qwen35-plus", "qwen-3.5", "qwen3.5-plus"),
        ("nvidia-nemotron-3-nano-30b-a3b", "other", "nemotron-3-nano-30b-a3b"),
        ("openai-gpt-4o-2024-11-20", "gpt-4o", None),
    ],
)
def test_names_of_other_writings_are_counted(name: str, family: str, assumed: str | None) -> None:
    """A name without its point, with its maker, or of words that other names have is counted by its family's rules."""
    model = countable_model(name)
    assert (model.rules.family, model.assumed, model.exact) == (family, assumed, False)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "qwen-3"),
        ("deepseek/deepseek-r1-distill-llama-70b", "llama-3"),
        ("meta.llama3-8b-instruct-v1:0", "llama-3"),
        ("codellama:7b", "llama-2"),
        ("qwen3.5-plus", "qwen-3.5"),
        ("llama-4-scout", "llama-4"),
    ],
)
def test_a_size_is_no_version(name: str, family: str) -> None:
    """A size behind a family's name, as in llama-70b, is not read as the family's version."""
    assert countable_model(name).rules.family == family
