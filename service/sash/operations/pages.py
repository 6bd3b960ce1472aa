"""The project's pages as the service serves them: Markdown to HTML, a page for each task, with a search.

``pages/`` has links to the files of the repository, so that a text is written once. A file of more than ``_MOST_WORDS``
words is divided at its headings of the second level. Links between files lead to the pages made of them. A picture, and a
link to a file that is no page, are left out, as they are not here.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from sash.operations.dashboard import ServedPage, page_of
from sash.problems import problem_types

_SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "start": ("First steps", "README.md"),
    "frameworks": ("Your framework", "service/docs/frameworks/README.md"),
    "use-chat": ("Your framework", "service/docs/frameworks/use-chat.md"),
    "assistant-ui": ("Your framework", "service/docs/frameworks/assistant-ui.md"),
    "ai-sdk": ("Your framework", "service/docs/frameworks/ai-sdk.md"),
    "langchain": ("Your framework", "service/docs/frameworks/langchain.md"),
    "pydantic-ai": ("Your framework", "service/docs/frameworks/pydantic-ai.md"),
    "openai-agents": ("Your framework", "service/docs/frameworks/openai-agents.md"),
    "litellm": ("Your framework", "service/docs/frameworks/litellm.md"),
    "google-adk": ("Your framework", "service/docs/frameworks/google-adk.md"),
    "agent-framework": ("Your framework", "service/docs/frameworks/agent-framework.md"),
    "claude-agent": ("Your framework", "service/docs/frameworks/claude-agent.md"),
    "llama-index": ("Your framework", "service/docs/frameworks/llama-index.md"),
    "mcp": ("Your framework", "service/docs/frameworks/mcp.md"),
    "other-frameworks": ("Your framework", "service/docs/frameworks/others.md"),
    "clients": ("Your framework", "service/sash_client/README.md"),
    "openai": ("Your provider", "service/docs/providers/openai.md"),
    "anthropic": ("Your provider", "service/docs/providers/anthropic.md"),
    "gemini": ("Your provider", "service/docs/providers/gemini.md"),
    "bedrock": ("Your provider", "service/docs/providers/bedrock.md"),
    "ollama": ("Your provider", "service/docs/providers/ollama.md"),
    "cohere": ("Your provider", "service/docs/providers/cohere.md"),
    "compatible": ("Your provider", "service/docs/providers/compatible.md"),
    "mends": ("What a window mends", "service/docs/providers/mends.md"),
    "destinations": ("What a window mends", "service/sash/core/providers/destinations/README.md"),
    "parameters": ("What a window holds", "service/sash/windows/parameters.md"),
    "documents": ("What a window holds", "service/sash/windows/README.md"),
    "tool-results": ("What a window holds", "service/docs/agents/tool-results.md"),
    "memory": ("What a window holds", "service/docs/agents/memory.md"),
    "history-tools": ("What a window holds", "service/docs/agents/history-tools.md"),
    "several-agents": ("What a window holds", "service/docs/agents/several-agents.md"),
    "compaction": ("What a window holds", "service/docs/agents/compaction.md"),
    "tasks": ("Conversations and messages, by task", "service/sash/api/README.md"),
    "commands": ("The command line", "service/sash/commands/README.md"),
    "library": ("In your own process", "service/sash/README.md"),
    "running": ("Running it", "deploy/README.md"),
    "runbook": ("Running it", "deploy/runbook.md"),
    "durability": ("Running it", "deploy/durability.md"),
    "backups": ("Running it", "deploy/backups.md"),
    "encryption": ("Running it", "deploy/encryption.md"),
    "embeddings": ("Running it", "deploy/embeddings.md"),
    "tracing": ("Running it", "deploy/tracing.md"),
    "sizing": ("Running it", "deploy/sizing.md"),
    "words": ("Words", "service/sash/glossary.md"),
}
"""By name: the group on the list of pages, and the file in the repository."""
_WHOLE: Final = frozenset({"runbook", "words", "destinations"})
"""Files that stay one page: the links of alerts lead into the runbook, and tables are read by their heads."""
_MOST_WORDS = 900
_ERRORS: Final = "service/docs/errors.md"
"""The page of errors, in whose place the service has a page for each error."""
_BESIDE: Final = "pages:"
"""Stands before the name of another page in a link, until it is known from where the link leads."""
_SNIPPET = 80
"""Characters on each side of a search's first hit."""
_HEAD: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<meta name=color-scheme content='light dark'><title>Sash: {title}</title><style>"
    "body{font:16px/1.55 system-ui,sans-serif;max-width:52em;margin:1.5em auto;padding:0 1em;color-scheme:light dark}"
    "nav,form{margin:0 0 1.5em}table{border-collapse:collapse;display:block;overflow-x:auto}"
    "td,th{border:1px solid #8886;padding:.3em .6em;text-align:left;vertical-align:top}code{overflow-wrap:anywhere}"
    "pre{background:#8882;padding:.8em 1em;border-radius:6px;overflow-x:auto}pre code{overflow-wrap:normal}"
    "h2{margin-top:2em}:target{background:#fc06}input{font:inherit;padding:.35em .6em;width:min(24em,70%)}"
    "button{font:inherit;padding:.35em .9em}li p{margin:.1em 0 .6em}small{opacity:.75}"
    ".groups ul{columns:2 20em;margin-top:.4em}.groups h2{margin-top:1.2em}"
    "</style><nav><a href='{up}docs/pages'>All pages</a> · <a href='{up}docs'>Try the API</a> · "
    "<a href='{up}dashboard'>Dashboard</a></nav>"
)


class WrittenPage(NamedTuple):
    """A page: its name in the address, its title and group, its HTML, and its words, for the search."""

    name: str
    title: str
    group: str
    html: str
    text: str


def page(name: str) -> ServedPage | None:
    """The page of this name and its headers; None if there is none."""
    found = pages().get(name)
    return found and _served(found.title, _linked(found, ""), up="../../")


@lru_cache(maxsize=1)
def runbook() -> ServedPage:
    """The runbook, at the path that alerts link to. An alert's name in small letters is the id of its entry."""
    found = pages()["runbook"]
    return _served(found.title, _linked(found, "docs/pages/"), up="")


def _linked(found: WrittenPage, folder: str) -> str:
    """The page's HTML with its links to other pages, which are in ``folder`` seen from where it is served."""
    return found.html.replace(f'href="{_BESIDE}', f'href="{folder}')


def index(query: str = "") -> ServedPage:
    """All pages by group; with a query those that have all its words, the ones with a word in the title first."""
    field = f"<input name=q type=search required aria-label='Search the pages' value='{escape(query, quote=True)}'>"
    asked = f"<h1>Pages</h1><form action=pages>{field} <button>Search</button></form>"
    words = query.lower().split()
    return _served("pages", asked + (_hits(_found(words), words) if words else _groups()), up="../")


class _Entry(NamedTuple):
    """A line of the list: where it leads, its title, its group, and the words that a search finds it by."""

    href: str
    title: str
    group: str
    text: str


@lru_cache(maxsize=1)
def _entries() -> tuple[_Entry, ...]:
    """All pages, and those of problem types."""
    own = [_Entry(f"pages/{each.name}", each.title, each.group, each.text) for each in pages().values()]
    kinds = [
        _Entry(f"../problems/{kind.slug}", f"{kind.slug}: {kind.title}", "Errors", str(kind.status))
        for kind in problem_types()
    ]
    return (*own, *kinds)


def _groups() -> str:
    groups: dict[str, list[str]] = {}
    for each in _entries():
        groups.setdefault(each.group, []).append(f"<li><a href='{each.href}'>{escape(each.title)}</a></li>")
    lists = "".join(
        f"<h2 id='{_slug(group)}'>{escape(group)}</h2><ul>{''.join(lines)}</ul>" for group, lines in groups.items()
    )
    return f"<div class=groups>{lists}</div>"


def _found(words: Sequence[str]) -> list[_Entry]:
    texts = ((each, f"{each.title} {each.text}".lower()) for each in _entries())
    having = [each for each, text in texts if all(word in text for word in words)]
    return sorted(having, key=lambda each: -sum(word in each.title.lower() for word in words))


def _hits(found: Sequence[_Entry], words: Sequence[str]) -> str:
    if not found:
        return f"<p>No page has all of these words: {escape(' '.join(words))}.</p>"
    lines = "".join(
        f"<li><a href='{each.href}'>{escape(each.title)}</a> <small>{escape(each.group)}</small>"
        f"<p>{escape(_snippet(each.text, words))}</p></li>"
        for each in found
    )
    return f"<ol>{lines}</ol>"


def _snippet(text: str, words: Sequence[str]) -> str:
    at = max(0, text.lower().find(words[0]))
    start, end = max(0, at - _SNIPPET), at + _SNIPPET
    return f"{'…' if start else ''}{' '.join(text[start:end].split())}{'…' if end < len(text) else ''}"


def _served(title: str, html: str, *, up: str) -> ServedPage:
    head = _HEAD.replace("{title}", escape(title)).replace("{up}", up)
    return page_of(f"{head}<main>{html}</main><script></script></html>".encode(), forms="'self'")


class _Section(NamedTuple):
    """A part of a file: its source, its name and title, and its tokens."""

    source: str
    name: str
    title: str
    tokens: list[Token]


@lru_cache(maxsize=1)
def pages() -> dict[str, WrittenPage]:
    """All pages by name, made at the first call, in half a second."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    sections = _named_once([each for source in _SOURCES for each in _sections(source, markdown)])
    places = {(each.source, anchor): each.name for each in sections for anchor in _anchors(each.tokens)}
    places |= {(source, ""): source for source in _SOURCES}
    made = {}
    for each in sections:
        _relink(each, places)
        text = " ".join(token.content for token in each.tokens if token.type in ("inline", "fence"))
        html = str(markdown.renderer.render(each.tokens, markdown.options, {}))
        made[each.name] = WrittenPage(each.name, each.title, _SOURCES[each.source][0], html, text)
    return made


def _named_once(sections: Sequence[_Section]) -> list[_Section]:
    """The sections, each with a name of its own: one that is called as another is has its source's name before its own."""
    named, taken = [], set(_SOURCES)
    for each in sections:
        name = each.name if each.name == each.source or each.name not in taken else f"{each.source}-{each.name}"
        taken.add(name)
        named.append(each._replace(name=name))
    return named


def _sections(source: str, markdown: MarkdownIt) -> Iterator[_Section]:
    text = (files("sash.operations") / "pages" / source).read_text("utf-8")
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    tokens = markdown.parse(text)
    _identify(tokens)
    starts = [0]
    if source not in _WHOLE and len(text.split()) > _MOST_WORDS:
        starts += [at for at, token in enumerate(tokens) if at and token.type == "heading_open" and token.tag == "h2"]
    for start, end in pairwise([*starts, len(tokens)]):
        title = tokens[start + 1].content  # each file begins with a heading
        yield _Section(source, _slug(title) if start else source, title.replace("`", ""), tokens[start:end])


def _identify(tokens: Sequence[Token]) -> None:
    """Give each heading the id that links name it by."""
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _slug(inline.content))


def _anchors(tokens: Sequence[Token]) -> list[str]:
    return [str(token.attrGet("id")) for token in tokens if token.type == "heading_open"]


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _relink(section: _Section, places: Mapping[tuple[str, str], str]) -> None:
    """Make links between files links between pages, and leave out pictures and links to what is no page."""
    by_path = {path: source for source, (_, path) in _SOURCES.items()}
    folder = posixpath.dirname(_SOURCES[section.source][1])
    for inline in section.tokens:
        if not inline.children:
            continue
        inline.children = [token for token in inline.children if token.type != "image"]
        for token in inline.children:
            if token.type != "link_open" or "://" in (href := str(token.attrGet("href"))):
                continue
            path, _, anchor = href.partition("#")
            file = posixpath.normpath(posixpath.join(folder, path))
            if path and file == _ERRORS:
                token.attrs = {"href": f"{_BESIDE}../../problems/{anchor}" if anchor else f"{_BESIDE}../pages#errors"}
                continue
            source = by_path.get(file, "") if path else section.source
            name = places.get((source, anchor))
            token.attrs = {"href": f"{_BESIDE}{name}{anchor and '#'}{anchor}"} if name else {}
