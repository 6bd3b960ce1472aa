"""The general code asks providers' records, and names no provider's form and no member of one."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.form.part_kinds import Kinds

SERVICE = Path(__file__).parents[2] / "service" / "sash"
OWN_ROOMS = ("openai", "ollama", "google", "anthropic", "bedrock", "cohere")
"""The rooms of providers' own files in ``core/providers/``; the registration is ``__init__.py``."""
CHATS = (
    "core/chat",
    "core/providers/messages/members.py",
    "core/providers/messages/reasoning_members.py",
    "core/providers/openai/openai.py",
)
"""Where the words of chat messages are, in which everything is stored."""
EXCEPTIONS = {
    "api/page_links.py": "names of pages",
    "operations/pages.py": "names of pages",
    "core/chat/other_names.py": "names that people write otherwise",
    "api/openapi/": "`responses` is a word of OpenAPI",
    "api/middleware/paths.py": "paths that people try at the wrong service",
    "settings.py": "makers whose endpoint writes summaries",
    "operations/compactor.py": "the same endpoints",
    "core/chat/mistakes.py": "hints on a request of another service",
    "core/chat/regular.py": "servers of chat completions, by what they write otherwise",
    "core/chat/programs.py": "other programs' records",
    "core/counts/models/families.py": "rules, with the bills that they rest on",
    "core/counts/models/vendors.py": "rules, with the bills that they rest on",
    "core/counts/measures/native_parts.py": "rules, with the bills that they rest on",
    "core/counts/requests/provider_requests.py": "rules, with the bills that they rest on",
    "core/counts/models/templates.py": "models' names and makers",
    "core/counts/models/listings.py": "models' names and makers",
    "core/counts/text/unicode_scripts.py": "vocabularies' names",
    "core/providers/messages/endings.py": "the words of its mend",
    "core/providers/destinations/": "tables of servers, with their evidence",
    "core/providers/writing/media_types.py": "the evidence of its mends",
    "core/providers/writing/shared_mends.py": "the evidence of its mends",
    "core/providers/messages/references.py": "a table of issuers, with how their references begin",
    "core/providers/messages/hosted.py": "members without words for a reader, whoever writes them",
    "core/screens/ag_ui_messages.py": "members of AG-UI's messages",
    "core/stored/split_media.py": "members with a data URL, whoever writes them",
}
"""Files that may name a form or its members though they are no provider's own, and why."""


def constants(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings in a module with their lines, except docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.lineno, node.value


def own_names() -> set[str]:
    """Return the names that providers' records declare, of several words, which chat messages do not have."""
    declared = {
        name
        for provider in PROVIDERS.values()
        for field in provider.kinds.__struct_fields__
        for name in names_in(getattr(provider.kinds, field))
    }
    declared |= {name for each in PROVIDERS.values() for name in each.free_members}
    chats = [
        path for part in CHATS for path in ((SERVICE / part).rglob("*.py") if "." not in part else [SERVICE / part])
    ]
    of_chats = {value for path in chats for _, value in constants(path)}
    return {name for name in declared if re.search(r"[a-z][A-Z]|_", name)} - of_chats


def names_in(value: Any) -> Iterable[str]:
    if isinstance(value, Kinds):
        return [*value.types, *value.members, *filter(None, value.members.values())]
    return value  # type: ignore[no-any-return]


def general_files() -> Iterator[Path]:
    """Yield the service's modules that belong to no provider, except those in ``EXCEPTIONS``."""
    for path in sorted(SERVICE.rglob("*.py")):
        where = path.relative_to(SERVICE).as_posix()
        is_own = path.parent.name in OWN_ROOMS or where == "core/providers/__init__.py"
        if not is_own and not where.startswith(tuple(EXCEPTIONS)):
            yield path


@pytest.mark.slow
def test_no_general_module_names_a_form() -> None:
    """Outside a provider's own files and the registration no module has a form's name, or a name of its members."""
    names = (own_names() | PROVIDERS.keys()) - {CHAT}
    assert {"reasoningContent", "toolUseId", "thoughtSignature", "tool_use_id", "item_reference", "converse"} <= names
    found = [
        f"{path.relative_to(SERVICE)}:{line}: {value}"
        for path in general_files()
        for line, value in constants(path)
        if value in names
    ]
    assert found == []


@pytest.mark.slow
def test_no_general_module_needs_a_providers_file() -> None:
    """The general code imports no provider's own file, but those of chat messages, in which everything is stored."""
    own = re.compile(
        rf"sash\.core\.providers\.(?!openai$|openai\.(openai|chat_mends|server_mends|single_calls|twin_calls)\b)({'|'.join(OWN_ROOMS)})\b"
    )
    found = [
        f"{path.relative_to(SERVICE)}: {node.module}"
        for path in general_files()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and own.match(node.module or "")
    ]
    assert found == []


def test_no_general_module_speaks_of_a_form_that_has_another_word() -> None:
    """Nor do docstrings and comments name a form whose name is not a vendor's, too: it says what holds for all."""
    told = re.compile(r"\b(converse|bedrock|ollama|interactions)\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(SERVICE)}: {line.strip()}"
        for path in general_files()
        for line in path.read_text("utf-8").splitlines()
        if told.search(line)
    ]
    assert found == []


def test_each_exception_is_one() -> None:
    """Each exception is a file or a folder that is there."""
    assert all((SERVICE / where).exists() for where in EXCEPTIONS)
