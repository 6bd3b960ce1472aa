"""Models by name: dated, fine-tuned, prefixed, misspelt, unknown, and a deployment's own."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from profiles import examples

from sash.core.counts.costs.counting import count_request
from sash.core.counts.models import listings
from sash.core.counts.models.families import TileRules
from sash.core.counts.models.models import (
    Model,
    countable_model,
    find_model,
    list_models,
    load_models_toml,
    unknown_model,
)
from sash.core.counts.models.names import read_name
from sash.core.counts.text import count_text
from sash.core.providers.destinations.destination import meet
from sash.problems import UnknownModel


@pytest.mark.parametrize(
    ("name", "encoding", "exact", "context_window", "max_input_tokens"),
    [
        ("gpt-3.5-turbo", "cl100k_base", True, 16_385, 16_385),
        ("gpt-35-turbo", "cl100k_base", True, 16_385, 16_385),
        ("gpt-4", "cl100k_base", True, 8_192, 8_192),
        ("gpt-4-0613", "cl100k_base", True, 8_192, 8_192),
        ("gpt-4-32k", "cl100k_base", True, 32_768, 32_768),
        ("gpt-4-turbo-2024-04-09", "cl100k_base", True, 128_000, 128_000),
        ("gpt-4o", "o200k_base", True, 128_000, 128_000),
        ("GPT-4o", "o200k_base", True, 128_000, 128_000),
        ("gpt-4o-2024-08-06", "o200k_base", True, 128_000, 128_000),
        ("openai/gpt-4o-mini", "o200k_base", True, 128_000, 128_000),
        ("azure/gpt-4o", "o200k_base", True, 128_000, 128_000),
        ("ft:gpt-4o-mini-2024-07-18:org::id", "o200k_base", True, 128_000, 128_000),
        ("ft:gpt-4.1-2025-04-14:org::id", "o200k_base", True, 1_047_576, 1_047_576),
        ("gpt-4o-mini-2024-07-18.ft-0123", "o200k_base", True, 128_000, 128_000),
        ("o3-mini-2025-01-31", "o200k_base", True, 200_000, 200_000),
        ("gpt-5", "o200k_base", True, 400_000, 272_000),
        ("gpt-5-mini-2025-08-07", "o200k_base", True, 400_000, 272_000),
        ("gpt-5-chat-latest", "o200k_base", False, 128_000, 128_000),
        ("gpt-5.4", "o200k_base", True, 1_050_000, 1_050_000),
        ("gpt-6", "o200k_base", False, 1_050_000, 922_000),
        ("gpt-6.2-sol", "o200k_base", False, 1_050_000, 922_000),
        ("gpt-9-whatever", "o200k_base", False, 1_050_000, 922_000),
        ("o7-mini", "o200k_base", False, 400_000, 272_000),
        ("gpt-oss-20b", "o200k_base", False, 131_072, 131_072),
        ("claude-3-5-sonnet-latest", "o200k_base", False, 200_000, 200_000),
        ("models/gemini-2.5-flash", "o200k_base", False, 1_048_576, 1_048_576),
    ],
)
def test_finds_names_as_people_write_them(
    name: str,
    encoding: str,
    exact: bool,  # noqa: FBT001 - a column of the table
    context_window: int,
    max_input_tokens: int,
) -> None:
    """A name finds a model's encoding, limits and exactness, and the model's id is the name that was asked for."""
    model = find_model(name)
    assert model.id == name
    assert (model.encoding, model.exact) == (encoding, exact)
    assert (model.context_window, model.max_input_tokens) == (context_window, max_input_tokens)


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("claude-opus-4-5", "anthropic"),
        ("anthropic.claude-3-5-sonnet-20240620-v1:0", "anthropic"),
        ("gemini-2.5-pro", "google"),
        ("mistral-large-latest", "mistral"),
        ("meta-llama/llama-3.3-70b-instruct", "meta"),
        ("deepseek-chat", "deepseek"),
        ("qwen/qwen3-32b", "qwen"),
        ("grok-4", "x-ai"),
    ],
)
def test_other_providers_are_estimates_that_err_high(name: str, provider: str) -> None:
    """The counts of other providers' models are estimates that err high."""
    model = find_model(name)
    assert (model.provider, model.exact) == (provider, False)
    said = [{"role": "user", "content": "Would you book a table for four on Friday, please?"}]
    assert count_request(model, messages=said).messages[0] > count_text(said[0]["content"], "o200k_base")
    assert model.context_window >= 8_192


@pytest.mark.parametrize(
    ("name", "context_window"),
    [
        ("gemini-2.5-pro", 1_048_576),
        ("gemini-3-pro", 1_048_576),
        ("gemini-3.1-pro-preview", 1_048_576),
        ("kimi-k2", 131_072),
        ("moonshotai/kimi-k2-thinking", 262_144),
        ("command-r-plus", 128_000),
        ("mistral-large", 128_000),
        ("mistral-large-2512", 262_144),
        ("qwen3-max", 262_144),
        ("deepseek-v4", 1_000_000),
        ("qwen3.5-plus", 1_000_000),
        ("llama-4-maverick", 1_048_576),
        ("glm-4.6", 204_800),
        ("gpt-4o", 128_000),
        ("amazon.nova-pro-v1:0", 300_000),
    ],
)
def test_a_window_is_what_the_maker_or_who_sells_the_model_states(name: str, context_window: int) -> None:
    """A model has the context window that its maker lists, or a gateway if the maker lists none."""
    model = find_model(name)
    assert (model.context_window, model.context_window_source) == (context_window, "listed")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gemini/gemma-3-27b-it", "gemma"),
        ("ollama/nomic-embed-text", "other"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "qwen"),
        ("deepseek-r1:8b", "deepseek"),
        ("mistral-small3.2:24b", "mistral-small-3.2"),
        ("oci/cohere.command-a-03-2025", "command"),
        ("cohere.command-r-plus-v1:0", "command-bedrock"),
        ("vertex_ai/claude-sonnet-4@20250514", "claude-4"),
        ("us.meta.llama3-2-11b-instruct-v1:0", "llama-3.2"),
        ("accounts/fireworks/models/qwen2p5-coder-32b-instruct", "qwen-2.5"),
        ("hf.co/unsloth/Qwen3-14B-GGUF:Q6_K", "qwen-3"),
        ("together_ai/deepseek-ai/DeepSeek-V3", "deepseek"),
        ("nousresearch/hermes-3-llama-3.1-70b", "llama-3.1"),
    ],
)
def test_a_name_is_of_the_family_behind_its_path(name: str, family: str) -> None:
    """A host's or a seller's name before a model's own does not say which family it is of."""
    assert countable_model(name).rules.family == family


def test_hosts_that_bill_something_of_their_own() -> None:
    """Venice puts a prompt before every request, and Azure bills tiles of gpt-4.1 like gpt-5's."""
    here, at_venice, at_azure = (find_model(name) for name in ("gpt-4.1", "venice/gpt-4.1", "azure/gpt-4.1"))
    assert (at_venice.priming - here.priming, at_venice.exact) == (1_700, False)
    assert (here.rules.images, at_azure.rules.images) == (TileRules(base=85, tile=170), TileRules(base=70, tile=140))


@pytest.mark.parametrize("name", ["vertex_ai/gemini-2.5-flash", "publishers/google/models/gemini-3-flash-preview"])
def test_vertex_bills_the_words_of_a_message_alone(name: str) -> None:
    """The Gemini API bills a token for each message, Vertex none."""
    said = [{"role": role, "content": "Kiel"} for role in ("user", "assistant", "user")]
    here, at_vertex = (count_request(find_model(each), messages=said) for each in (name.rsplit("/", 1)[-1], name))
    assert [one - other for one, other in zip(here.messages, at_vertex.messages, strict=True)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "family", "context_window"),
    [
        ("claude-instant-1.2", "claude-3", 200_000),
        ("claude-opus-5-1", "claude-5", 1_000_000),
        ("us.anthropic.claude-opus-9-v1:0", "claude-5", 1_000_000),
        ("gemini-exp-1206", "gemini-3.1", 1_048_576),
        ("models/gemini-3.5-pro", "gemini-3.1", 1_000_000),
    ],
)
def test_a_new_name_of_claude_or_gemini_is_an_estimate(name: str, family: str, context_window: int) -> None:
    """A name of Claude or Gemini that no source lists is counted as its family, with its nearest relative's window."""
    model = find_model(name)
    assert (model.id, model.rules.family, model.exact) == (name, family, False)
    assert (model.context_window, model.context_window_source) == (context_window, "assumed")
    assert name not in {listed.id for listed in list_models()}


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("qwen3:8b", "qwen3-8b"),
        ("gpt-oss:120b-cloud", "gpt-oss-120b"),
        ("llama3.3:70b-instruct-q4_K_M", "llama-3.3-70b-instruct"),
        ("/models/Qwen3-8B-Q4_K_M.gguf", "qwen3-8b"),
        ("Qwen/Qwen3.5-397B-A17B-FP8", "qwen3.5-397b-a17b"),
        ("accounts/fireworks/models/llama-v3p3-70b-instruct", "llama-3.3-70b-instruct"),
        ("meta-llama/llama-3-3-70b-instruct", "llama-3.3-70b-instruct"),
        ("Meta-Llama-3_3-70B-Instruct", "llama-3.3-70b-instruct"),
        ("qwen-3-235b-a22b-instruct-2507", "qwen3-235b-a22b-instruct-2507"),
        ("zai-glm-4.7", "glm-4.7"),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "claude-3.7-sonnet-20250219"),
        ("deepseek.v3-v1:0", "deepseek-v3"),  # the maker's name is the model's, too
        ("us.deepseek.v3.2", "deepseek-v3.2"),
        ("apac.amazon.nova-2-lite-v1:0", "amazon.nova-2-lite"),
        ("azure_ai/FW-DeepSeek-V4-Pro", "deepseek-v4-pro"),
    ],
)
def test_sellers_spell_one_model_in_many_ways(name: str, like: str) -> None:
    """Names of one model are read as the same: without seller, path, quantisation and file, with its version's point."""
    read, other = read_name(name), read_name(like)
    assert read.spelled == other.spelled
    one, two = find_model(name), find_model(like)
    assert (one.provider, one.rules, one.ratios) == (two.provider, two.rules, two.ratios)


@pytest.mark.parametrize(
    ("name", "size", "date", "quantisation"),
    [
        ("Qwen3-1.7B-Q4_K_M.gguf", "1.7b", "", "q4_k_m"),
        ("claude-opus-4-5-20251101", "", "20251101", ""),
        ("command-a-03-2025", "", "03-2025", ""),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "8x7b", "", ""),
        ("Qwen/Qwen3.6-35B-A3B-FP8", "35b", "", "fp8"),
    ],
)
def test_a_name_says_size_date_and_quantisation(name: str, size: str, date: str, quantisation: str) -> None:
    """A name's size, date and quantisation are read apart from what it is called."""
    read = read_name(name)
    assert (read.size, read.date, read.quantisation) == (size, date, quantisation)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("gpt-4o-mni", "gpt-4o-mini"),
        ("gpt-5o", "gpt-5"),
        ("claude-sonet-5", "claude-sonnet-5"),
        ("deepseek-chatt", "deepseek-chat"),
        ("gemini-2.5-falsh", "gemini-2.5-flash"),
        ("mistral-lrge-latest", "mistral-large"),
    ],
)
def test_a_misspelling_of_a_known_name_is_unknown(name: str, right: str) -> None:
    """A name one or two letters from a known one is unknown, and the known one is the nearest."""
    with pytest.raises(UnknownModel) as caught:
        find_model(name)
    assert caught.value.members["near"][0] == right


@pytest.mark.parametrize(
    ("name", "assumed"),
    [("gpt-7", "gpt-6.2-sol"), ("gpt-4o-eu", "gpt-4o"), ("gpt-4o", None), ("gpt-4o-2030-01-01", None)],
)
def test_whose_figures_stand_in_is_told(name: str, assumed: str | None) -> None:
    """A new date, version or variant of a family is no misspelling; the model says whose figures stand in."""
    assert find_model(name).assumed == assumed


def _figures(name: str) -> Model:
    """A model's figures, without what its name alone says of them."""
    told: dict[str, Any] = {"id": "", "meant": "", "exact": False, "assumed": None, "context_window_source": "listed"}
    return msgspec.structs.replace(find_model(name), **told)


_LISTED = sorted(model.id for model in list_models())


def test_a_deployment_is_the_model_that_it_is_named_after() -> None:
    """Each listed name with ``-prod`` behind it has that model's figures, and says so."""
    for name in _LISTED:
        assert _figures(f"{name}-prod") == _figures(name)
        assert find_model(f"{name}-prod").assumed == read_name(name).bare


@given(
    name=st.sampled_from(_LISTED),
    separator=st.sampled_from("-_.@"),
    words=st.sampled_from(
        ["eu", "x", "test", "v2", "east2", "chat", "PROD", "my_team", "swedencentral", "prod-1", "prod.eu", "dev_2"]
    ),
    seller=st.sampled_from(["", "azure/", "openrouter/somebody/"]),
)
@examples(0.5)
def test_any_word_may_tell_deployments_apart(name: str, separator: str, words: str, seller: str) -> None:
    """A listed name, a separator and an operator's words count as the model, unless this is a listed name itself.

    A server may bill or limit a model otherwise, whatever words are behind the name.
    """
    deployed = f"{seller}{name}{separator}{words}"
    assume(not listings.is_listed(read_name(deployed)))
    assert _figures(deployed) == _figures(f"{seller}{name}")


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("gpt-4o-mini-prod", "gpt-4o-mini"),
        ("gpt-4.1-mini-eu", "gpt-4.1-mini"),
        ("o4-mini-x", "o4-mini"),
        ("o1-prod", "o1"),  # no misspelling of o1-pro
        ("gpt-4o-mini-2", "gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18-2", "gpt-4o-mini"),
        ("gpt-35-turbo-eu", "gpt-3.5-turbo"),
        ("gpt-4-1-mini", "gpt-4.1-mini"),
        ("gpt-4-1-mini-eu", "gpt-4.1-mini"),
        ("github_copilot/gpt-41-copilot", "gpt-4.1"),
        ("us.openai.gpt-5.6-luna", "gpt-5.6-luna"),
        ("us.anthropic.claude-3-7-sonnet-prod", "us.anthropic.claude-3-7-sonnet"),
        ("ft:gpt-4o-mini-prod:org::id", "gpt-4o-mini"),
    ],
)
def test_the_longest_listed_name_is_meant(name: str, like: str) -> None:
    """A name that nobody lists is the longest listed one that it begins with, however both are spelled."""
    assert _figures(name) == _figures(like)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("gpt-5.7", "gpt-5"),
        ("claude-opus-4-9", "claude-opus-4"),
        ("mistral-large-5", "mistral-large"),
        ("gemma-3-99b-it", "gemma-3"),
        ("command-a-reasoning-08-2025", "command-a"),
        ("deepseek-r1-distill-qwen-7b", "deepseek-r1"),
    ],
)
def test_another_version_size_or_family_is_no_deployment(name: str, like: str) -> None:
    """A version, a size or another family's words behind a listed name make it another model."""
    assert _figures(name) != _figures(like)


def test_a_word_that_begins_many_names_is_no_model() -> None:
    """Names that begin with a single word of no known family, such as ``router``, stay unknown."""
    for name in ("router-prod", "my-gpt-4o-mini"):
        with pytest.raises(UnknownModel):
            find_model(name)


def test_a_picture_costs_a_deployment_what_it_costs_the_model() -> None:
    """A picture of 320 by 200 pixels costs gpt-4o-mini-prod the tiles of gpt-4o-mini, not those of gpt-4o."""
    shown = {"type": "image_url", "image_url": {"url": "https://pictures.example/1.png"}, "size": [320, 200]}
    said = [{"role": "user", "content": [shown]}]
    counts = [count_request(find_model(name), messages=said).messages for name in ("gpt-4o-mini-prod", "gpt-4o-mini")]
    assert counts[0] == counts[1] > [8_000]


def test_an_older_model_never_has_the_window_of_a_newer_one() -> None:
    """A name that no source lists has no limits of a newer version."""
    assert find_model("meta-llama/Llama-2-70b-chat-hf").context_window == 4_096


@pytest.mark.parametrize("name", ["gpt-9-whatever", "claude-v1", "gpt-4.1-unheard-of", "mistral-medium-2312"])
def test_a_window_that_nobody_states_says_so(name: str) -> None:
    """A context window that no listing has is marked as assumed."""
    assert find_model(name).context_window_source == "assumed"
    assert unknown_model(name).context_window_source == "assumed"


@pytest.mark.parametrize(
    ("name", "counting"), [("gpt-4o", "exact"), ("gpt-6", "vocabulary"), ("claude-opus-4-5", "estimate")]
)
def test_how_counts_come_about(name: str, counting: str) -> None:
    """Counts are exact if recorded bills agree, by vocabulary if the vendor's is known, and estimates otherwise."""
    assert find_model(name).counting == counting


def _dated(since: str) -> Iterator[str]:
    """Yield the bare names of chat models that OpenRouter sells under a date from ``since`` (YYYYMMDD) on."""
    for model in listings._sellers()["openrouter"]:
        dates = [match.group(1) for name in model.names if (match := re.search(r"-(20\d{6})$", name))]
        if max(dates, default="") >= since and not listings._NOT_CHAT.search(model.id):
            yield listings.bare_name(model.id)


def test_no_model_of_the_last_year_falls_back() -> None:
    """Every chat model that OpenRouter dates within a year has a listed window; makers' models without one are printed."""
    since = datetime.now(UTC) - timedelta(days=365)
    assumed = {name for name in _dated(f"{since:%Y%m%d}") if find_model(name).context_window_source == "assumed"}
    old = sorted(m.id for m in listings.listed_models() if find_model(m.id).context_window_source == "assumed")
    print(f"{len(old)} models of makers without a listed window, of any year: {', '.join(old)}")
    assert not assumed


def test_prices_come_with_the_model() -> None:
    """A listed model has prices of input tokens, lower for cached ones; an unlisted model has no price."""
    model = find_model("gpt-4o-mini")
    assert model.input_price is not None
    assert model.cached_input_price is not None
    assert 0 < model.cached_input_price < model.input_price
    assert find_model("gpt-9-whatever").input_price is None


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gtp-4o", "gpt-4o"),
        ("claud", "claude-"),
        ("cluade-opus-4", "claude-opus-4"),
        ("phi-3", ""),
        ("nobody-made-this", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_an_unknown_name_is_a_problem_with_near_names(name: str, near: str | None) -> None:
    """An unknown name is a problem with a list of similar names that can be found, the nearest first, and a short detail."""
    with pytest.raises(UnknownModel) as caught:
        find_model(name)
    names = caught.value.members["near"]
    assert names == [] if near is None else names[0].startswith(near)
    assert [find_model(each).id for each in names] == names
    assert len(caught.value.detail) < 400
    assert repr(name[:100])[:-1] in caught.value.detail
    assert ("did you mean" in caught.value.detail) is (name in ("gtp-4o", "claud", "cluade-opus-4"))


def test_a_misspelt_name_is_told_the_right_one() -> None:
    """A misspelt name's problem lists the right name, which may be a deployment's own."""
    own = load_models_toml('[models."our-model"]\ncontext_window = 1000')
    with pytest.raises(UnknownModel) as caught:
        find_model("our-modle", own)
    assert "our-model" in caught.value.members["near"]
    with pytest.raises(UnknownModel) as caught:
        find_model("gpt4o")
    assert "gpt-4o" in caught.value.members["near"]


def test_an_unknown_model_errs_high_and_has_no_window_of_its_own() -> None:
    """An unknown model has a margin of 1.15, and no limit but the context window that the caller states."""
    model = unknown_model("phi-9")
    assert (model.id, model.exact, model.margin, model.ratios) == ("phi-9", False, 1.15, "other")
    assert model.max_input_tokens >= 10_000_000


def test_a_deployment_adds_and_overrides_models() -> None:
    """A deployment's models have a known model's rules or are estimates, and override known names."""
    own = load_models_toml(
        """
        [models."our-gpt"]
        like = "gpt-4o-mini"
        context_window = 32000
        max_output_tokens = 4096

        [models."gpt-4o"]
        like = "gpt-4o"
        context_window = 64000
        max_input_tokens = 60000

        [models."house-llama"]
        context_window = 8000
        margin = 1.2
        provider = "us"
        """
    )
    ours = find_model("our-gpt", own)
    assert (ours.id, ours.exact, ours.context_window, ours.max_input_tokens) == ("our-gpt", True, 32_000, 32_000)
    assert ours.rules == find_model("gpt-4o-mini").rules
    assert (ours.max_output_tokens, ours.context_window_source) == (4096, "listed")
    assert (find_model("house-llama", own).exact, find_model("house-llama", own).max_input_tokens) == (False, 8_000)
    assert find_model("gpt-4o", own).context_window == 64_000
    assert find_model("gpt-4o", own).max_output_tokens == find_model("gpt-4o").max_output_tokens
    assert find_model("gpt-4o", own).max_input_tokens == 60_000
    assert (find_model("house-llama", own).provider, find_model("house-llama", own).margin) == ("us", 1.2)
    assert {"our-gpt", "house-llama", "gpt-5"} <= {model.id for model in list_models(own)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not toml", r"Expected '=' after a key.*line 1"),
        ("[other]\nx = 1", r'tables called \[models\."name"\] and nothing else'),
        ("models = 3", r'tables called \[models\."name"\] and nothing else'),
        ("[models.a]\nmargin = 2.0", "model 'a': .*context_window"),
        ("[models.a]\ncontext_window = 0", "model 'a': .*context_window"),
        ("[models.a]\ncontext_window = 9\nmax_input_tokens = -4", "model 'a': .*max_input_tokens"),
        (
            "[models.a]\ncontext_window = 9\nmax_input_tokens = 10",
            "model 'a': max_input_tokens is at most context_window",
        ),
        ("[models.a]\ncontext_window = 9\nmargin = nan", "model 'a': .*margin"),
        ("[models.a]\ncontext_window = 9\nmargin = inf", "model 'a': .*margin"),
        ("[models.a]\ncontext_window = 9\ninput_price = -1", "model 'a': .*input_price"),
        ("[models.a]\ncontext_window = 9\nmargin = 0.5", "model 'a': .*margin"),
        ("[models.a]\ncontext_window = 9\nlike = 'nobody'", "model 'a': No model is called 'nobody'"),
        ("[models.a]\ncontext_window = 9\ncontextwindow = 9", "model 'a': .*contextwindow"),
        ("[models.a]\ncontext_window = 9\nencoding = 'p50k_base'", "model 'a': .*p50k_base.*encoding"),
        ("models.a = 3", "model 'a': Expected an object with 'context_window', not 3"),
        ("[models.b]\ncontext_window = 9\n[models.a]\ncontext_window = 'x'", "model 'a': .*context_window"),
    ],
)
def test_a_wrong_models_file_is_one_clear_error(text: str, said: str) -> None:
    """An invalid models file raises a ValueError that names the model, if one is wrong, and what is wrong in it."""
    with pytest.raises(ValueError, match=said):
        load_models_toml(text)


def test_every_listed_model_is_one_that_can_be_found() -> None:
    """Every listed model is found by its id, has valid limits and margin, and is not for embeddings or speech."""
    models = list_models()
    assert len(models) > 150
    for model in models:
        assert find_model(model.id) == model
        assert 0 < model.max_input_tokens <= model.context_window
        assert (model.margin == 1.0) if model.exact else model.margin >= 1.0
    assert not [model.id for model in models if "embed" in model.id or "whisper" in model.id]


@pytest.mark.parametrize(
    ("name", "like", "host", "refused"),
    [
        ("prod", "gpt-3.5-turbo", None, {"pictures", "members"}),
        ("fast", "groq/qwen/qwen3-32b", "groq", {"reasoning", "pictures"}),
        ("groq/fast", "qwen3-vl-plus", "groq", {"reasoning"}),
        ("k", "kimi-k2.5", None, {"reasoning"}),
    ],
)
def test_an_own_name_has_the_facts_of_the_model_that_it_is_like(
    name: str, like: str, host: str | None, refused: set[str]
) -> None:
    """A deployment's name is read as the model's and its host's; its own name may say the host, too."""
    own = load_models_toml(f'[models."{name}"]\nlike = "{like}"\ncontext_window = 8192\n')[name]
    found = meet("openai", own.provider, own.known_as)
    assert own.id == name
    assert found.host == host
    assert refused <= found.values.keys()
    assert ("pictures" in found.values) == ("pictures" in refused)


def test_a_deployment_has_the_facts_of_the_name_that_it_begins_with() -> None:
    """gpt-4-prod reads text alone, as GPT-4 does, and gpt-4o-prod sees."""
    assert find_model("azure/gpt-4-prod").known_as == "azure/gpt-4"
    assert "pictures" in meet("openai", "openai", find_model("azure/gpt-4-prod").known_as).values
    assert "pictures" not in meet("openai", "openai", find_model("gpt-4o-prod").known_as).values
