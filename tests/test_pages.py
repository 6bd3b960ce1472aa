"""The pages: links work, each code block has a test, everything that is named exists, and README is short."""

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import destinations_page
import msgspec
import provider_pages
import pytest
from readme_blocks import ROOT, block, blocks, headings, pages, places, read, rows, section, without_blocks

from sash import problems
from sash.cli import main
from sash.core.counts.models.models import find_model, load_models_toml
from sash.core.law.records.parameters import WindowQuery
from sash.settings import GROUPS, VARIABLES, Settings

README_BYTES = 16_000
PARAMETERS = "service/sash/windows/parameters.md"
CLICKS = 2
WORDS = 900
_LINK = re.compile(r"\]\(([^)\s]+)\)")
RUN_BY = {
    "README.md": {
        ("## Two commands", "sh"): "test_readme.py::test_both_commands_install_in_the_same_way",
        ("## A first window", "sh"): "test_readme.py::test_the_first_window_is_the_one_that_is_shown",
        ("## A first window", "json"): "test_readme.py::test_the_first_window_is_the_one_that_is_shown",
        ("## A chat loop", "sh"): "test_readme.py::test_the_stand_in_serves_what_the_environment_names",
        ("### Python, with the OpenAI SDK", "python"): "test_readme.py::test_the_openai_loop_goes_through_a_tool_call",
        (
            "### Streaming, with FastAPI",
            "python",
        ): "clients/test_streaming_chat.py::test_a_reader_that_goes_away_leaves_a_whole_reply",
        ("### Streaming, with FastAPI", "sh"): "clients/test_streaming_chat.py::test_the_command_asks",
        ("## Your frontend has its own list? PUT it", "sh"): "test_readme.py::test_a_screen_s_list_begins_a_turn",
        ("## In your own process", "python"): "test_library.py::test_readme_s_program_counts_what_it_sends",
        ("### TypeScript", "ts"): "test_readme.py::test_the_typescript_loop_runs_as_it_says",
        ("### TypeScript", "sh"): "test_readme.py::test_the_typescript_loop_runs_as_it_says",
    },
    "CONTRIBUTING.md": {
        ("# Contributing", "sh"): "test_pages.py::test_every_module_and_path_exists",
    },
    "service/sash/api/README.md": {
        (
            "## Your frontend has its own list? PUT it",
            "json",
        ): "api/test_http_agree.py::test_the_page_s_list_begins_a_turn",
        ("## Follow a conversation", "html"): "clients/test_follow_page.py::test_the_page_follows_a_conversation",
        ("## Follow a conversation", "python"): "clients/test_event_source.py::test_the_program_follows_a_conversation",
        ("## Receipts", "python"): "clients/test_receipts_page.py::test_the_program_reads_what_the_model_saw",
    },
    "deploy/README.md": {
        ("## Upgrades", "sh"): "test_cli_migrate.py::test_a_folder_is_taken_over_and_swapped",
        ("## Installing", "sh"): "clients/test_installing.py::test_a_wheel_serves",
        ("### Models of your own", "toml"): "test_pages.py::test_the_models_file_is_one",
        ("### Vocabularies", "sh"): "clients/test_installing.py::test_googles_vocabulary_is_brought",
        ("## Inside an application of your own", "python"): "clients/test_fastapi.py::test_sash_is_mounted",
        ("## From trying it to production", "sh"): "test_cli_transfer.py::test_from_trying_it_to_production",
    },
    "deploy/backups.md": {
        ("## A copy of a stopped service", "sh"): "store/test_backups.py::test_a_copy_of_a_stopped_service",
        ("## A copy while the service runs", "sh"): "store/test_backups.py::test_a_copy_while_the_service_runs",
        ("## A snapshot, `dump.rdb`", "sh"): "store/test_backups.py::test_a_lone_snapshot_is_refused_and_restored",
        ("## A single `appendonly.aof`", "sh"): "store/test_backups.py::test_a_single_file_is_taken_over",
        ("## Files without their manifest", "sh"): "store/test_backups.py::test_a_lost_manifest_is_written_again",
    },
    "deploy/tracing.md": {
        ("## Langfuse", "sh"): "operations/test_tracing.py::test_the_pages_settings_turn_spans_on",
        ("## Phoenix", "sh"): "operations/test_tracing.py::test_the_pages_settings_turn_spans_on",
    },
    "deploy/embeddings.md": {
        ("# Vectors for recall", "sh"): "operations/test_embeddings_page.py::test_vectors_from_a_wheel",
    },
    "deploy/encryption.md": {
        ("## Changing keys", "sh"): "test_readme_encryption.py::test_both_kinds_of_keys_are_changed",
    },
    "service/docs/frameworks/langchain.md": {
        ("# LangChain and LangGraph", "python"): "test_readme.py::test_an_agent_of_chat_completions_runs_on_windows",
    },
    "service/docs/frameworks/pydantic-ai.md": {
        ("# Pydantic AI", "python"): "test_readme.py::test_an_agent_of_chat_completions_runs_on_windows",
    },
    "service/docs/frameworks/llama-index.md": {
        ("# LlamaIndex", "python"): "test_readme.py::test_an_agent_of_chat_completions_runs_on_windows",
    },
    "service/docs/frameworks/agent-framework.md": {
        ("# Microsoft Agent Framework", "python"): "test_readme.py::test_an_agent_of_chat_completions_runs_on_windows",
    },
    "service/docs/frameworks/openai-agents.md": {
        ("# OpenAI Agents SDK", "python"): "test_readme.py::test_the_agents_sdk_runs_on_windows",
    },
    "service/docs/frameworks/google-adk.md": {
        ("# Google ADK", "python"): "test_readme.py::test_the_adk_runs_on_windows",
    },
    "service/docs/frameworks/litellm.md": {
        ("# LiteLLM's proxy", "python"): "clients/test_litellm.py::test_a_tool_loop_is_kept",
        ("# LiteLLM's proxy", "yaml"): "clients/test_litellm.py::test_a_tool_loop_is_kept",
    },
    "service/docs/frameworks/ai-sdk.md": {
        ("# AI SDK", "sh"): "test_readme.py::test_the_vercel_sdk_runs_on_windows",
        ("# AI SDK", "ts"): "test_readme.py::test_the_vercel_sdk_runs_on_windows",
    },
    "service/docs/frameworks/use-chat.md": {
        ("# useChat", "sh"): "clients/test_use_chat.py::built",
        ("# useChat", "ts"): "clients/test_use_chat.py::test_send",
        ("# useChat", "tsx"): "clients/test_use_chat.py::test_send",
    },
    "service/docs/frameworks/mcp.md": {
        ("# MCP", "python"): "test_readme.py::test_a_model_finds_what_its_window_leaves_out",
    },
    "service/docs/providers/openai.md": {
        ("# OpenAI, with its SDK", "python"): "test_readme.py::test_the_responses_loop_sends_windows",
    },
    "service/docs/providers/anthropic.md": {
        (
            "# Claude, with the Anthropic SDK",
            "python",
        ): "test_readme.py::test_the_claude_loop_sends_windows_and_reports_the_bill",
    },
    "service/docs/providers/gemini.md": {
        (
            "# Gemini, with the Google GenAI SDK",
            "python",
        ): "test_readme.py::test_the_gemini_loop_sends_windows_and_reports_the_bill",
    },
    "service/docs/providers/bedrock.md": {
        (
            "# Amazon Bedrock, with boto3",
            "python",
        ): "test_readme.py::test_the_bedrock_loop_sends_windows_and_reports_the_bill",
    },
    "service/docs/providers/ollama.md": {
        ("# Ollama", "python"): "test_readme.py::test_the_ollama_loop_sends_windows",
    },
    "service/docs/providers/cohere.md": {
        (
            "# Cohere, with its SDK",
            "python",
        ): "test_readme.py::test_the_cohere_loop_sends_windows_and_reports_the_bill",
    },
    "service/docs/agents/memory.md": {
        ("# A long memory", "python"): "test_readme.py::test_turn_400_has_what_turn_3_said",
    },
    "service/docs/agents/history-tools.md": {
        ("# Tools that read the history", "python"): "test_readme.py::test_a_model_finds_what_its_window_leaves_out",
    },
    "service/docs/agents/several-agents.md": {
        ("# Several agents", "python"): "test_readme.py::test_each_of_several_agents_sees_its_part",
    },
    "service/docs/agents/tool-results.md": {
        ("# Huge tool results", "python"): "test_readme.py::test_an_agent_goes_on_behind_a_huge_result",
    },
    "service/docs/agents/compaction.md": {
        ("# A provider's own compaction", "python"): "test_readme.py::test_a_compaction_begins_the_next_window",
    },
    "service/sash_client/README.md": {
        ("## A generated client", "sh"): "test_readme.py::test_a_typescript_client_is_generated_and_run",
        ("## A generated client", "ts"): "test_readme.py::test_a_typescript_client_is_generated_and_run",
    },
    "service/sash/README.md": {
        ("# The library", "python"): "test_library.py::test_the_page_s_programs_talk",
        ("## OpenAI", "python"): "test_library.py::test_the_page_s_programs_talk",
        ("## Claude", "python"): "test_library.py::test_the_page_s_programs_talk",
        ("## Gemini", "python"): "test_library.py::test_the_page_s_programs_talk",
        ("## Documents", "python"): "test_library.py::test_the_page_s_programs_talk",
    },
    "service/sash/commands/README.md": {
        ("## Trying other parameters", "sh"): "test_cli_replay.py::test_the_page_s_commands_run",
        ("## Windows and counts of a file", "sh"): "test_readme.py::test_the_pure_commands_take_a_file",
        ("## Watching a window move", "sh"): "test_readme.py::test_a_conversation_flows_in_to_be_watched",
        ("## Moving in", "sh"): "test_migration.py::test_the_pages_way_in_works_and_may_be_taken_twice",
    },
    "service/sash/windows/README.md": {
        ("## Sources", "json"): "api/test_document_sources.py::test_the_pages_documents",
        ("## Levels of documents", "json"): "api/test_document_levels.py::test_the_pages_example",
    },
    "tests/bench/README.md": {
        ("# How fast Sash is", "sh"): "test_pages.py::test_every_module_and_path_exists",
    },
    "tests/clients/README.md": {
        ("# Clients", "sh"): "test_pages.py::test_every_module_and_path_exists",
    },
    "tests/model/README.md": {
        ("## Running it", "sh"): "test_pages.py::test_every_module_and_path_exists",
    },
    "tests/recall/README.md": {
        ("# Recall", "sh"): "test_pages.py::test_every_module_and_path_exists",
    },
    "tests/truth/new-model.md": {
        ("## 1. Ask the provider", "sh"): "test_cli_truth.py::test_a_provider_is_asked_in_every_format",
        ("## 4. Check", "sh"): "test_cli_truth.py::test_a_file_is_compared_without_a_provider",
    },
    "tests/truth/README.md": {
        ("# Accuracy", "sh"): "test_pages.py::test_every_module_and_path_exists",
        (
            "### With Gemini's vocabulary",
            "sh",
        ): "test_cli_truth.py::test_a_vocabulary_of_ones_own_is_compared_with_none",
    },
}
"""The test of each code block, by page, then by heading and language; ``text`` blocks are not code."""


def links(page: str) -> Iterator[str]:
    """Yield a page's links into the project, including pictures."""
    for target in _LINK.findall(re.sub(r"`[^`\n]*`", "``", without_blocks(read(page)))):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them from the text."""
    texts = [re.sub(r"[^\w\- ]", "", each.lstrip("# ").lower()).replace(" ", "-") for each in headings(page)]
    return {
        text + (f"-{texts[:place].count(text)}" if text in texts[:place] else "") for place, text in enumerate(texts)
    }


def reached(page: str, target: str) -> Path:
    """Return the file or folder that a link of a page leads to."""
    return ((ROOT / page).parent / target.partition("#")[0]).resolve() if not target.startswith("#") else ROOT / page


def spans(page: str) -> list[str]:
    """Return the lines of a page's shell blocks, without comments, and its inline code."""
    shell = [line.partition(" #")[0] for code in blocks("sh", read(page)) for line in code.splitlines()]
    return shell + re.findall(r"`([^`\n]+)`", without_blocks(read(page)))


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_somewhere(page: str) -> None:
    """Each link leads to a file that exists and, if it has an anchor, to a heading that exists."""
    dead = []
    for target in links(page):
        file, anchor = reached(page, target), target.partition("#")[2]
        if not file.exists() or (anchor and anchor not in anchors(str(file.relative_to(ROOT)))):
            dead.append(target)
    assert dead == []


def test_the_readme_is_short() -> None:
    """README has fewer than 16,000 bytes, because it is for the first 15 minutes."""
    assert len((ROOT / "README.md").read_bytes()) < README_BYTES


def test_every_page_is_near() -> None:
    """Every page is at most two clicks from README."""
    seen = {"README.md"}
    for _ in range(CLICKS):
        found = {reached(page, target) for page in seen for target in links(page)}
        seen |= {str(path.relative_to(ROOT)) for path in found if path.suffix == ".md"}
    assert set(pages()) - seen == set()


def test_every_block_of_code_has_a_test() -> None:
    """Each code block has a test, and each of these tests exists."""
    listed = {(page, *place) for page, tests in RUN_BY.items() for place in tests}
    assert {place for place in places() if place[2] != "text"} == listed
    for test in {test for tests in RUN_BY.values() for test in tests.values()}:
        file, name = test.split("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), test


def test_every_window_parameter_has_its_line() -> None:
    """The page has each parameter once, with its default; README has the first of them in the same words."""
    page = {name.strip("`"): (default, meaning) for name, default, meaning in rows(read(PARAMETERS))}
    of_conversation = {"model": "the conversation's", "reserve": "the conversation's, else 1024"}
    assert {name: default.strip("`") for name, (default, _) in page.items()} == {
        field.name: of_conversation.get(field.name, _written(field.default))
        for field in msgspec.structs.fields(WindowQuery)
    }
    assert len(page) == len(rows(read(PARAMETERS)))
    first = {
        name.strip("`"): (default, meaning)
        for name, default, meaning in rows(section("README.md", "## What a window holds"))
    }
    assert first.items() <= page.items()
    assert f"The other {len(page) - len(first)}" in read("README.md")


SCHEMAS = json.loads(read("openapi.json"))["components"]["schemas"]


@pytest.mark.parametrize(
    ("heading", "first", "schema", "member"),
    [("## Follow a conversation", "event", "OwnerEvent", "type"), ("## Receipts", "reason", "Problem", "reason")],
)
def test_a_table_of_words_has_each_word_once(heading: str, first: str, schema: str, member: str) -> None:
    """The tables of events and of reasons have exactly the words that the service says."""
    table = section("service/sash/api/README.md", heading).partition(f"| {first} |")[2].partition("\n\n")[0]
    named = [word for line in table.split("\n")[2:] for word in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert sorted(named) == sorted(SCHEMAS[schema]["properties"][member]["enum"])


def test_a_parameter_s_line_has_its_words() -> None:
    """Each word that a window parameter takes stands in its line, as its default or in its meaning."""
    page = {name.strip("`"): f"{default} {meaning}" for name, default, meaning in rows(read(PARAMETERS))}
    missing = [
        (name, word)
        for name, line in page.items()
        for word in SCHEMAS["WindowRequest"]["properties"][name].get("enum") or ()
        if not re.search(rf"\b{word}\b", line)
    ]
    assert missing == []


PAGES_OF_ONE = sorted(
    f"service/docs/{kind}/{path.name}"
    for kind in ("frameworks", "providers", "agents")
    for path in (ROOT / "service/docs" / kind).glob("*.md")
    if path.name != "mends.md"  # generated: a line for each mend
)


@pytest.mark.parametrize("page", PAGES_OF_ONE)
def test_a_page_is_read_in_minutes(page: str) -> None:
    """The page of a framework, a provider or a task of agents has at most 900 words."""
    assert len(read(page).split()) <= WORDS


def _written(default: Any) -> str:
    return "none" if default is None else json.dumps(default) if isinstance(default, bool) else str(default)


def test_generated_pages_are_those_of_the_records() -> None:
    """Limits, media, caches, mends and errors on the pages are the code's, and each mend says what is refused and sent."""
    for path, text in provider_pages.write().items():
        assert path.read_text("utf-8") == text, "run: python -m tests.provider_pages"
    assert all(mend.refused and mend.sent for mend, _ in provider_pages.mends_by_name().values())


def test_the_page_of_destinations_is_that_of_the_rows() -> None:
    """The page has each row."""
    assert destinations_page.PAGE.read_text("utf-8") == destinations_page.written(), (
        "run: python -m tests.destinations_page"
    )


def test_every_setting_has_its_line() -> None:
    """The four tables have all variables by who needs them, with their defaults and the reasons of these; a dagger marks
    those that a file may hold."""
    said = section("deploy/README.md", "## Settings").partition("\n### ")[0]
    defaults = Settings()
    for group in GROUPS:
        table = said.partition(f"**{group.title}**, for {group.who}:\n")[2].partition("\n\n**")[0]
        shown = [(name.strip("`"), default, why, "†" in meaning) for name, meaning, default, why in rows(table)]
        assert shown == [
            (variable.name, _set(getattr(defaults, variable.field)), variable.why, variable.secret)
            for variable in group.variables
        ]
    assert [variable for group in GROUPS for variable in group.variables] == [*VARIABLES]
    assert all(variable.why for variable in VARIABLES)


def _set(default: Any) -> str:
    return "no" if default is False else "" if default in {None, (), frozenset()} else str(default)


def test_the_models_file_is_one() -> None:
    """The example is a valid models file; ``like`` gives a model's counting rules and limits, and ``margin`` its margin."""
    text = block("toml", "deploy/README.md", "### Models of your own")
    models = load_models_toml(text)
    assert set(models) == set(tomllib.loads(text)["models"])
    assert models["our-gpt"].rules == find_model("gpt-4o-mini").rules
    assert (models["house-llama"].margin, models["house-llama"].encoding) == (1.35, "o200k_base")
    on_bedrock = models["claude-on-bedrock"].limits
    assert (on_bedrock.bytes, on_bedrock.image_bytes, on_bedrock.images) == (20_000_000, 5_000_000, 100)


@pytest.mark.parametrize("page", pages())
def test_every_setting_and_problem_that_is_named_exists(page: str) -> None:
    """Each variable that a page names belongs to the service, and each problem to the service."""
    known = {variable.name for variable in VARIABLES}
    assert set(re.findall(r"\bSASH_[A-Z0-9_]*[A-Z0-9]\b", read(page))) - known == set()
    kinds = [kind for kind in vars(problems).values() if isinstance(kind, type) and issubclass(kind, problems.Problem)]
    assert set(re.findall(r"/problems/([a-z-]+)", read(page))) - {kind.slug for kind in kinds} == set()


@pytest.mark.parametrize("page", pages())
def test_every_command_that_is_named_exists(page: str) -> None:
    """Each ``sash …`` on a page is a command that exists, with options that exist."""
    for span in spans(page):
        for words in re.findall(r"(?:^|[/|(] ?)sash ([a-z][^|)\"]*)", span):
            command: click.Command = main
            for word in words.split():
                if isinstance(command, click.Group) and word != "…":
                    assert word in command.commands, span
                    command = command.commands[word]
            options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", words)) - options == set(), span


@pytest.mark.parametrize("page", pages())
def test_every_module_and_path_exists(page: str) -> None:
    """Each project module after ``python -m`` exists, and so do the test paths and marks after ``pytest``."""
    marks = {"nightly", "clients", "deploy"}
    for span in spans(page):
        for module, words in re.findall(r"python -m ([\w.]+)([^&|]*)", span):
            if module.startswith(("tests", "sash")):
                assert find_spec(module) is not None, span
            if module == "pytest":
                assert [path for path in re.findall(r"(?<!\S)tests/\S+", words) if not (ROOT / path).exists()] == [], (
                    span
                )
                assert set(re.findall(r"-m (\w+)", words)) <= marks, span


def test_the_readmes_figures_are_those_of_the_pages() -> None:
    """README's figures on accuracy, faults and speed agree with the pages that report them."""
    figures = " ".join(read("README.md").partition("## Two commands")[0].split())
    kinds = [row for row in rows(section("tests/truth/README.md", "# Accuracy")) if row[:2] == ["OpenAI", "all"]]
    ((cases, exact, *_, short),) = (kind[2:] for kind in kinds)  # the last column: short, of those said to be exact
    assert f"{cases} recorded OpenAI requests {exact} are predicted" in figures
    assert short == "0"
    faults = [row for row in rows(read("tests/faults/README.md")) if len(row) == 9]
    turns = sum(int(row[1].replace(",", "")) for row in faults)
    assert f"0 of {turns // 1000},000 acknowledged messages" in figures
    assert {row[3:7] == ["0"] * 4 for row in faults} == {True}
    peers = {row[0]: row for row in rows(section("tests/bench/README.md", "## Against other libraries"))}
    _, ours, ratio, *_ = peers["LangChain trim_messages"][1:]
    (milliseconds,) = re.findall(r"takes about ([\d.]+) ms", figures)
    assert 2 / 3 < float(ours.split()[0]) / float(milliseconds) < 1.5
    kinds = {row[0]: row[-1] for row in rows(section("tests/bench/README.md", "## What each kind of window costs"))}
    tools, agent = (kinds[name] for name in ("with tools / plain", "the same, of an agent / plain"))
    spent = [
        f"{int(each.replace(',', '')) / 1000:.1f}" for each in (tools.split()[2], tools.split()[0], agent.split()[0])
    ]
    assert "{} ms, with tools {}, for a Claude agent with cache hints {}".format(*spent) in figures
    (times,) = re.findall(r"over (\d+) times as long", figures)
    assert float(ratio) > int(times)
