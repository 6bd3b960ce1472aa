"""The runbook as a page, so that the links of alerts lead somewhere: deploy/runbook.md, from Markdown to HTML.

It knows the forms of Markdown that the runbook has: headings, paragraphs, lists, tables, code and bold text. Pictures, and
links to other pages of the repository, are left out, as they are not here.
"""

import re
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Final

from sash.operations.dashboard import ServedPage, page_of

_HEAD: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>Sash: runbook</title>"
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color-scheme:light dark}"
    "table{border-collapse:collapse}td,th{border:1px solid #8886;padding:.3em .6em;text-align:left;vertical-align:top}"
    "code{overflow-wrap:anywhere}h2{margin-top:2em}:target{background:#fc06}</style>"
)
_INLINE: Final = (
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]+)\]\((#[^)]+)\)"), r"<a href='\2'>\1</a>"),
    (re.compile(r"\[([^\]]+)\]\([^)]*\)"), r"\1"),
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"<b>\1</b>"),
)


@lru_cache(maxsize=1)
def runbook() -> ServedPage:
    """The page and its headers, made at the first call. An alert's name in small letters is the id of its entry."""
    text = (files("sash.operations") / "page" / "runbook").read_text("utf-8")
    blocks = re.split(r"\n{2,}|\n(?=\*\*)", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    return page_of(f"{_HEAD}{''.join(_block(each.strip()) for each in blocks)}<script></script></html>".encode())


def _block(text: str) -> str:
    lines = text.splitlines()
    if not lines:
        return ""
    if heading := re.fullmatch(r"(#+) (.+)", lines[0]):
        level, title = len(heading[1]), heading[2]
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        return f"<h{level} id='{name}'>{_inline(title)}</h{level}>{_block(chr(10).join(lines[1:]).strip())}"
    if lines[0].startswith("|"):
        return _table(lines)
    start = next((place for place, line in enumerate(lines) if line.startswith("- ")), None)
    if start is None:
        return f"<p>{_inline(text)}</p>"
    items = re.split(r"^- ", "\n".join(lines[start:]), flags=re.MULTILINE)[1:]
    before = f"<p>{_inline(chr(10).join(lines[:start]))}</p>" if start else ""
    return f"{before}<ul>{''.join(f'<li>{_inline(each)}</li>' for each in items)}</ul>"


def _table(lines: list[str]) -> str:
    rows = [[_inline(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines]
    if not any(cell for row in rows[2:] for cell in row):
        return ""  # a table of pictures
    head = "".join(f"<th>{cell}</th>" for cell in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows[2:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _inline(text: str) -> str:
    said = escape(text, quote=False)
    for pattern, shape in _INLINE:
        said = pattern.sub(shape, said)
    return said
