"""Destinations: which host a name says, and what the form, the maker, the host and the template want together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.counts.models.models import find_model, list_models
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import COMPATIBLE, FACTS, meet
from sash.core.providers.destinations.hosts import AS_MADE, PREFIXES, UNRECORDED, host_of
from sash.core.providers.destinations.model_media import READERS
from sash.core.providers.destinations.rules import RULES
from sash.core.providers.destinations.tool_names import ALPHABETS

HOSTS = {
    "groq/qwen/qwen3-32b": "groq",
    "cerebras/zai-glm-4.7": "cerebras",
    "openrouter/moonshotai/kimi-k2.5": "openrouter",
    "venice/zai-org-glm-5": "venice",
    "fireworks_ai/accounts/fireworks/models/deepseek-v4-pro": "fireworks",
    "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo": "together",
    "azure/gpt-4o": "azure",
    "azure_ai/deepseek-v4-pro": "azure",
    "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0": "bedrock",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": "bedrock",
    "meta.llama3-1-70b-instruct-v1:0": "bedrock",
    "vertex_ai/gemini-2.5-pro": "vertex",
    "claude-sonnet-4-5@20250929": "vertex",
    "ollama/gemma3:4b": "ollama",
    "hosted_vllm/google/gemma-3-27b-it": "vllm",
    "deepinfra/Qwen/Qwen3-32B": "deepinfra",
    "openai/gpt-4o": None,
    "deepseek/deepseek-chat": None,
    "gpt-4.1-mini": None,
    "qwen3.5-27b": None,
}


def test_a_host_without_a_record_gets_the_strict_meet() -> None:
    """What the strictest hosts refuse is not sent to one that nobody recorded; others have rows, or a reason for none."""
    strict = {each.kind: each.value for each in FACTS if each.name == UNRECORDED}
    found = meet("openai", "deepseek", "deepinfra/deepseek-ai/DeepSeek-V4-Pro").values
    assert {kind: found[kind] for kind in strict} == strict
    assert "alternation" not in meet("openai", "deepseek", "together_ai/deepseek-ai/DeepSeek-V4-Pro").values
    recorded = {each.name for each in FACTS if each.of == "host"} | AS_MADE.keys()
    assert {
        "azure",
        "bedrock",
        "cerebras",
        "fireworks",
        "groq",
        "ollama",
        "openrouter",
        "together",
        "vertex",
        "vllm",
    } < recorded


@pytest.mark.parametrize("name", HOSTS)
def test_a_name_says_its_host(name: str) -> None:
    """A host is said by a name's beginning, as LiteLLM writes it, or by an id that only one cloud has."""
    assert host_of(name) == HOSTS[name]


def test_no_listed_model_of_a_maker_seems_to_be_at_a_host() -> None:
    """A listed name without a slash says no host, but ids of Bedrock and of Vertex."""
    found = {model.id: host_of(model.id) for model in list_models() if "/" not in model.id}
    assert {host for host in found.values() if host} <= {"bedrock", "vertex"}


@pytest.mark.parametrize("fact", FACTS, ids=lambda each: f"{each.name}-{each.kind}")
def test_each_row_has_a_value_of_its_kind_and_evidence(fact: object) -> None:
    """A row's value is one of its kind's, its forms are known, its host can be said, and its evidence is told."""
    assert fact.value in RULES[fact.kind].values
    assert fact.forms <= PROVIDERS.keys()
    assert fact.of != "host" or fact.name in {*PREFIXES.values(), COMPATIBLE, UNRECORDED}
    assert len(fact.evidence) > 10
    assert fact.of != "template" or fact.models


def test_each_alphabet_has_a_meaning() -> None:
    """Every value of the fact on tools' names is a pattern."""
    assert ALPHABETS.keys() == RULES["tool_names"].values.keys()


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("groq/qwen/qwen3-32b", {"reasoning": "refused", "members": "known", "roles": "no_developer"}),
        ("qwen3-32b", {"roles": "no_developer", "empty_reply": "refused"}),
        ("deepseek-v4-pro", {"reasoning": "filled"}),
        ("moonshot/kimi-k2.5", {"links": "refused", "schemas": "typed"}),
        ("openrouter/moonshotai/kimi-k2.5", {"links": None}),
        ("groq/deepseek-v4-pro", {"reasoning": "refused"}),
        ("hosted_vllm/google/gemma-3-27b-it", {"alternation": "answered", "system": "one"}),
        ("openrouter/perplexity/sonar-pro", {"alternation": "turns"}),
        ("mistral-large-latest", {"call_ids": "nine", "ending": "prefix", "members": "own", "system": "first"}),
        ("mistralai/Devstral-Small-2-24B-Instruct-2512", {"alternation": "answered", "beginning": "user"}),
        ("glm-5.1", {"beginning": "asked", "empty_question": "refused"}),
        ("hosted_vllm/Qwen/Qwen3.5-27B", {"beginning": "asked", "system": "one"}),
        ("hosted_vllm/Qwen/Qwen3-32B", {"beginning": None, "system": None}),
        ("venice/openai-gpt-54-pro", {"empty_reply": "refused"}),
        ("minimax/MiniMax-M2.7", {"system": "one"}),
        ("openrouter/google/gemini-3.7-flash", {"ending": "no_reply"}),
        ("gemini-3.1-pro-preview", {"ending": None}),
        ("gpt-4o", {"tool_names": "plain", "members": "known"}),
    ],
)
def test_a_destination_wants_what_all_that_read_it_want(model: str, wanted: dict[str, str]) -> None:
    """The facts of maker, host and template hold together; of one kind the strictest."""
    values = meet("openai", find_model(model).provider, model).values
    assert {kind: values.get(kind) for kind in wanted} == wanted


@pytest.mark.parametrize("model", ["kimi-k2.5", "deepseek-v4-pro", "claude-opus-4-8"])
def test_a_maker_has_one_alphabet_in_each_form_that_it_serves(model: str) -> None:
    """Declared tools have names of the same alphabet in chat completions and in Claude's form."""
    maker = find_model(model).provider
    assert {meet(form, maker, model).values["tool_names"] for form in ("openai", "anthropic")} == {"plain"}


def test_openai_takes_what_others_refuse() -> None:
    """OpenAI's own models at OpenAI's own endpoint want known members, names and ids, no sounds and no videos."""
    assert meet("openai", "openai", "gpt-4o").values.keys() == {
        *("call_ids", "members", "reasoning", "sounds", "tool_names", "videos"),
    }


@given(
    st.sampled_from([*PROVIDERS]),
    st.sampled_from(sorted({each.name for each in FACTS if each.of == "maker"})),
    st.sampled_from(["", *sorted(PREFIXES)]),
    st.sampled_from(["gemma-3", "qwen3.5", "deepseek-v4", "claude-opus-4-8", "sonar", "llama4"]),
)
def test_a_host_takes_no_fact_away(form: str, maker: str, host: str, model: str) -> None:
    """A destination at a host wants of each kind what it wants without one, or something stricter.

    A host that reads files itself takes them for every model, and fetches pictures whether their maker's servers do or not.
    """
    alone, hosted = meet(form, maker, model), meet(form, maker, f"{host}/{model}" if host else model)
    for kind, value in alone.values.items():
        if (kind == "files" and host in READERS) or (kind == "links" and host):
            continue
        order = [*RULES[kind].values]
        assert order.index(hosted.values[kind]) >= order.index(value)


TEXT_ALONE = (
    *(
        "gpt-3.5-turbo",
        "gpt-35-turbo-16k",
        "azure/gpt-4",
        "gpt-4-0613",
        "gpt-4-32k",
        "o1-mini",
        "o3-mini",
        "gpt-oss-120b",
    ),
    *("deepseek-chat", "deepseek-v4-pro", "openrouter/deepseek/deepseek-r1", "codestral-latest", "open-mistral-nemo"),
    *(
        "glm-4.6",
        "glm-5.3",
        "zai-org-glm-4.7",
        "qwen3-coder-plus",
        "qwen3-32b",
        "qwen3:8b",
        "kimi-k2",
        "kimi-k2-thinking",
    ),
    *("llama-3.3-70b-versatile", "meta.llama3-1-70b-instruct-v1:0", "ollama/llama3.2", "grok-2-1212", "grok-3-mini"),
    *("amazon.nova-micro-v1:0", "us.amazon.nova-micro-v1:0", "minimax-m2.5", "command-r-plus", "phi4", "gemma2:9b"),
)
SEEING = (
    *(
        "gpt-4o",
        "gpt-4-turbo",
        "gpt-4-vision-preview",
        "gpt-4.1-mini",
        "gpt-5",
        "o1",
        "o3",
        "o4-mini",
        "gpt-45-preview",
    ),
    *(
        "deepseek-vl2",
        "pixtral-12b",
        "mistral-small-latest",
        "mistral-large-2512",
        "glm-4.5v",
        "glm-4.6v-flash",
        "glm-5v-turbo",
    ),
    *(
        "glm-5.3-flash",
        "qwen3-vl-plus",
        "qwen2.5vl:7b",
        "qwen3.5-plus",
        "qwen3-5-9b",
        "qwen3.6-27b",
        "kimi-k2.5",
        "kimi-k2p6",
    ),
    *(
        "llama-3.2-11b-vision-preview",
        "us.meta.llama3-2-90b-instruct-v1:0",
        "llama3.2-vision",
        "llama-4-scout",
        "llava",
    ),
    *(
        "grok-2-vision-1212",
        "grok-4",
        "amazon.nova-lite-v1:0",
        "minimax-m3",
        "command-a-vision-07-2025",
        "phi4-multimodal",
    ),
    *("claude-3-haiku", "claude-opus-4-8", "gemini-2.5-flash", "gemma3:4b", "gemma-3-27b-it", "sonar-pro", "my-model"),
)


@pytest.mark.parametrize("model", TEXT_ALONE)
def test_model_media_alone_take_no_media(model: str) -> None:
    """A model that reads text alone refuses pictures and sounds, however its seller spells it."""
    assert meet("openai", "", model).values.keys() >= {"pictures", "sounds"}


@pytest.mark.parametrize("model", SEEING)
def test_models_that_see_and_unknown_ones_take_pictures(model: str) -> None:
    """No row of a family takes a picture away from a relative that sees, nor from a model that nobody knows."""
    assert "pictures" not in meet("openai", "", model).values


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4o-mini", "gpt-5", "gpt-4.1", "o3", "claude-opus-4-8"])
def test_sounds_are_for_models_that_hear(model: str) -> None:
    """Models with ``audio`` in their names hear, and others of OpenAI's do not."""
    assert "sounds" in meet("openai", find_model(model).provider, model).values
    for hearing in ("gpt-4o-audio-preview", "gpt-audio", "gemini-2.5-flash", "voxtral-small", "qwen3-omni-flash"):
        assert "sounds" not in meet("openai", "", hearing).values


@pytest.mark.parametrize(
    ("model", "most"),
    [
        ("groq/meta-llama/llama-4-scout-17b-16e-instruct", 5),
        ("pixtral-large-latest", 8),
        ("hosted_vllm/mistralai/Pixtral-12B-2409", None),
        ("azure/mistral-large", None),
        ("meta/muse-spark-1.3", 50),
        ("azure/gpt-4o", 1_500),
    ],
)
def test_pictures_are_limited_by_who_serves_them(model: str, most: int | None) -> None:
    """A host's limit is that of its name, a maker's that of names without a host; none is known of an owner's server."""
    assert find_model(model).limits.images == most
