"""Documents: rendered with a template, trimmed to the budget, and spliced into stored JSON."""

import json
from typing import Any

import msgspec
import pytest
from histories import Ask, added_tokens, grounded, said, talk, words
from hypothesis import given
from hypothesis import strategies as st

from sash.core.chat.messages import encode_message
from sash.core.counts.text import Encoding, count_text
from sash.core.law.documents.grounding import (
    DEFAULT_SEPARATOR,
    DEFAULT_TEMPLATE,
    Grounded,
    content_texts,
    parse_template,
    splice,
)
from sash.core.law.records.parameters import WindowQuery
from sash.problems import BadRequest, WindowDoesNotFit

TEMPLATES = (
    DEFAULT_TEMPLATE,
    "{documents}\n===\n{content}",
    "{content}{documents}",
    "Use <{documents}> to answer: {content}?",
)
TEXT = st.text(st.sampled_from('ab .,\n한🙂{}"\\'), max_size=60) | st.sampled_from([words(40), "日本語のテキスト" * 8])
ENCODING: st.SearchStrategy[Encoding] = st.sampled_from(["o200k_base", "cl100k_base"])


@given(st.sampled_from(TEMPLATES), TEXT, TEXT)
def test_template(template: str, content: str, documents: str) -> None:
    """The texts around a content follow the template, whichever of its two placeholders comes first."""
    before, after = parse_template(template, "").around([documents])
    wanted = template.replace("{content}", "\0").replace("{documents}", documents).replace("\0", content)
    assert before + content + after == wanted


@pytest.mark.parametrize(
    "template", ["", "{content}", "{documents}", "{content}{documents}{content}", "{content }{documents}"]
)
def test_template_without_its_places(template: str) -> None:
    """A template that does not contain both placeholders once is refused with a pointer to ``grounding_template``."""
    with pytest.raises(BadRequest) as caught:
        parse_template(template, DEFAULT_SEPARATOR)
    assert caught.value.errors[0].pointer == "#/grounding_template"


def rendered(template: str, separator: str, content: str, documents: list[str]) -> str:
    before, after = parse_template(template, separator).around(documents)
    return before + content + after


def sent_text(chosen: Grounded, content: str) -> str:
    return chosen.before + content + chosen.after


DOCUMENTS = st.lists(TEXT, min_size=1, max_size=5)
SEPARATOR = st.sampled_from([DEFAULT_SEPARATOR, "", "\n"])


def trimmed(
    template: str, separator: str, content: str, documents: list[str], room: int, encoding: Encoding = "o200k_base"
) -> Grounded | None:
    """The documents of a question that add at most so many tokens, for a model that is counted in this encoding."""
    found = talk(grounded(content, *documents), grounding_template=template, document_separator=separator)
    model = Ask("gpt-4o-mini" if encoding == "o200k_base" else "gpt-3.5-turbo").model
    return found.documents(dedupe=False).choose(1, found.stored[0][0], model, room)


@given(st.sampled_from(TEMPLATES), SEPARATOR, TEXT, DOCUMENTS, ENCODING, st.integers(0, 200))
def test_trim(template: str, separator: str, content: str, documents: list[str], encoding: Encoding, room: int) -> None:
    """Trimmed documents fit and cost the stated tokens: the first ones are whole, and the last may be cut."""
    parsed, documents = parse_template(template, separator), [each for each in documents if each.strip()]
    chosen = trimmed(template, separator, content, documents, room, encoding)
    if chosen is None:
        return
    added = count_text(sent_text(chosen, content), encoding) - count_text(content, encoding)
    assert added == chosen.tokens == chosen.cost <= room
    *whole, last = documents[: len(chosen.places)]
    ends = range(1, len(last)) if chosen.cut else [len(last)]
    assert (chosen.before, chosen.after) in [parsed.around([*whole, last[:end]]) for end in ends]


@given(st.sampled_from(TEMPLATES), TEXT, DOCUMENTS, ENCODING, st.integers(0, 200))
def test_trim_is_maximal(template: str, content: str, documents: list[str], encoding: Encoding, room: int) -> None:
    """Trimming leaves little room unused: twelve more characters would leave fewer than six tokens."""
    parsed = parse_template(template, "\n")
    joined = "\n".join(each for each in documents if each.strip())
    chosen = trimmed(template, "\n", content, documents, room, encoding)
    sent = len(chosen.before + chosen.after) - len("".join(parsed.around([""]))) if chosen else 0
    more = joined[: sent + 12]  # a character has at most three tokens; a separator may be left out
    if len(more) == sent + 12:
        assert added_tokens(parsed, content, [more], encoding) > room - 6


def test_trim_takes_whole_documents_first() -> None:
    """The first documents are whole, and the one that is cut is the last that is sent."""
    chosen = trimmed(DEFAULT_TEMPLATE, DEFAULT_SEPARATOR, "?", [words(10), words(10), words(10)], 20)
    assert chosen is not None
    assert (len(chosen.places), chosen.cut) == (2, True)
    assert chosen.after.startswith(f"\n\nSources:\n{words(10)}\n---\nday")


def test_trim_leaves_no_separator_at_the_end() -> None:
    """Where the room ends behind a separator, what is sent ends with the document before it, which is not cut."""
    template, separator = "{content}\n{documents}", "\n=====\n=====\n"
    whole = added_tokens(parse_template(template, separator), "?", ["one", "two"], "o200k_base")
    sent = [trimmed(template, separator, "?", ["one", "two"], room) for room in range(whole)]
    assert {(each.after, each.cut) for each in sent if each} == {("\none", False)}


def test_trim_cuts_between_characters() -> None:
    """A character that takes several tokens is sent whole or not at all."""
    for room in range(1, 30):
        chosen = trimmed("{content}{documents}", "", "?", ["🙂🤷‍♀️ᄀ" * 5], room)
        assert chosen is None or ("🙂🤷‍♀️ᄀ" * 5).startswith(chosen.after)


def test_nothing_fits_beside_the_template() -> None:
    """If the template's own text takes the room, neither documents nor the template's text are sent."""
    assert trimmed(DEFAULT_TEMPLATE, DEFAULT_SEPARATOR, "?", ["text"], 2) is None


@given(st.sampled_from(TEMPLATES), SEPARATOR, TEXT, DOCUMENTS, st.integers(0, 200))
def test_own_budget(template: str, separator: str, content: str, documents: list[str], most: int) -> None:
    """Documents with a text are taken in their order while they fit their own budget; one more would not."""
    found = talk(grounded(content, *documents), grounding_template=template, document_separator=separator)
    documents = [document for document in documents if document.strip()]
    chosen = found.documents(max_tokens=most, dedupe=False).choose(1, found.stored[0][0], Ask().model, 10_000)
    parsed, kept = found.parts.template, len(chosen.places) if chosen else 0
    if chosen:
        assert sent_text(chosen, content) == rendered(template, separator, content, documents[:kept])
        assert chosen.cost == added_tokens(parsed, content, documents[:kept], "o200k_base") <= most
        assert not chosen.cut
    if kept < len(documents):
        assert added_tokens(parsed, content, documents[: kept + 1], "o200k_base") > most


def test_a_document_that_joins_a_word() -> None:
    """A document that forms one token with the content's last token costs nothing, and is taken even without room."""
    found = talk(grounded("to", "day", " is"), grounding_template="{content}{documents}", document_separator="")
    assert added_tokens(found.parts.template, "to", ["day"], "o200k_base") == 0
    chosen = found.documents(max_tokens=0).choose(1, found.stored[0][0], Ask().model, 100)
    assert chosen is not None
    assert (len(chosen.places), chosen.cost) == (1, 0)


def test_a_separator_that_ends_a_word() -> None:
    """A document that costs more alone than with the separator after it is cut until it fits."""
    template, separator = "{content} {documents}", "rnment"
    parsed = parse_template(template, separator)
    room = added_tokens(parsed, "?", ["government"], "o200k_base")
    assert added_tokens(parsed, "?", ["gove"], "o200k_base") > room
    chosen = trimmed(template, separator, "?", ["gove", "zzz"], room)
    assert chosen is not None
    assert (len(chosen.places), chosen.after.lstrip()) == (1, "gov")


CONTENT = TEXT | st.lists(TEXT.map(lambda text: {"type": "text", "text": text}), min_size=1, max_size=3)


@given(CONTENT, TEXT, TEXT, st.booleans())
def test_splice(content: Any, before: str, after: str, named: bool) -> None:  # noqa: FBT001 - drawn
    """Splicing text around a stored content gives the JSON of the message with that content, for strings and part lists."""
    message = {"role": "user", **({"name": "alice"} if named else {}), "content": content, "extra": [1]}
    body, start, end = encode_message(message)
    if isinstance(content, str):
        wanted: Any = before + content + after
    else:
        wanted = [{"type": "text", "text": t} for t in [before] if t] + content
        wanted += [{"type": "text", "text": t} for t in [after] if t]
    assert splice(body, start, end, before, after) == msgspec.json.encode({**message, "content": wanted})
    assert "".join(content_texts(content)) == (
        content if isinstance(content, str) else "".join(p["text"] for p in content)
    )


def test_splice_into_an_empty_list() -> None:
    """An empty part list becomes the documents' part alone."""
    body, start, end = encode_message({"role": "assistant", "content": []})
    assert json.loads(splice(body, start, end, "", "seen"))["content"] == [{"type": "text", "text": "seen"}]


def test_splice_into_null() -> None:
    """A null content becomes the documents' text."""
    body, start, end = encode_message({"role": "assistant", "content": None})
    assert json.loads(splice(body, start, end, "a", "b"))["content"] == "ab"


# ---- in windows


def question_sent(found: Any, ask: Ask) -> Any:
    request = msgspec.json.decode(found.request(found.window(ask)))
    return [m for m in request["messages"] if m["role"] == "user"][-1]["content"]


def test_a_part_list_question() -> None:
    """If a question is a list of parts, its documents are sent in a part of their own."""
    parts = [{"type": "text", "text": "which"}, {"type": "text", "text": " one?"}]
    found = talk(grounded(parts, "the red one"), grounding_template="Know: {documents}\n{content}")
    assert question_sent(found, Ask()) == [{"type": "text", "text": "Know: the red one\n"}, *parts]


def test_drop() -> None:
    """``drop`` sends all documents or none."""
    found = talk(grounded("?", words(50), words(49)))
    whole = found.window(Ask(limits={"overflow": "drop"})).tokens.total
    assert len(found.window(Ask(budget=whole, limits={"overflow": "drop"})).grounding[1].places) == 2
    assert found.window(Ask(budget=whole - 1, limits={"overflow": "drop"})).grounding == {}


def test_error() -> None:
    """``error`` refuses to trim, and the problem's costs, which include the documents, sum to what is needed."""
    found = talk(said("user", "hi"), grounded("?", words(50)), system="Be brief.")
    whole = found.window(Ask(options=WindowQuery(limit=1))).tokens.total
    assert len(found.window(Ask(budget=whole, limits={"overflow": "error"})).grounding[2].places) == 1
    with pytest.raises(WindowDoesNotFit) as caught:
        found.window(Ask(budget=whole - 7, limits={"overflow": "error"}))
    members = caught.value.members
    assert (members["shortfall"], members["needed"]) == (7, sum(members["costs"].values()))
    assert members["costs"]["grounding"] > 50


def test_error_with_all_is_about_the_question_alone() -> None:
    """With ``all`` and ``error``, an older message whose documents do not fit whole ends the history without an error."""
    found = talk(said("user", "a"), grounded("b", words(90)), grounded("?", words(50)))
    window = found.window(Ask(budget=120, options=WindowQuery(grounding="all"), limits={"overflow": "error"}))
    assert (window.seqs, window.stop_reason) == ([3], "budget")


def test_all_sends_pinned_documents_too() -> None:
    """With ``all``, a pinned message is sent with its documents, like other messages."""
    found = talk(grounded("a", "first", is_pinned=True), grounded("b", "second"), said("user", "?"))
    assert list(found.window(Ask(options=WindowQuery(grounding="all"))).grounding) == [1, 2]


def test_a_document_twice() -> None:
    """A document of two turns is sent with the newer one; two documents are the same where id and text are."""
    found = talk(grounded("a", ("d", "old"), "same"), grounded("b", ("d", "old"), "same", "more"))
    sent = found.window(Ask(options=WindowQuery(grounding="all"))).grounding
    assert list(sent) == [2]
    changed = talk(grounded("a", ("d", "old"), "same"), grounded("b", ("d", "new"), "same", "more"))
    assert list(changed.window(Ask(options=WindowQuery(grounding="all"))).grounding) == [1, 2]
    everywhere = found.window(Ask(options=WindowQuery(grounding="all", dedupe="none"))).grounding
    assert list(everywhere) == [1, 2]


def test_a_document_twice_in_one_message() -> None:
    """A document that retrieval found twice for one question is sent once."""
    found = talk(grounded("a", ("d", "text"), ("d", "text")))
    assert question_sent(found, Ask()) == "a\n\nSources:\ntext"


def test_one_budget_for_all_documents() -> None:
    """``grounding_max_tokens`` limits all documents of a window together."""
    found = talk(grounded("a", words(30)), grounded("b", words(31)), grounded("c", words(32)))
    window = found.window(Ask(options=WindowQuery(grounding="all"), limits={"max_tokens": 80}))
    assert list(window.grounding) == [2, 3]
    assert window.tokens.grounding <= 80


@pytest.mark.parametrize("name", ["gpt-4o-mini", "claude-sonnet-4-5", "gemini-2.5-pro"])
def test_documents_fill_the_budget(name: str) -> None:
    """Documents fill the budget to within 3 tokens, also where the tokens are estimated."""
    found = talk(grounded("?", words(500)))
    for budget in range(100, 140):
        window = found.window(Ask(name, budget))
        assert budget - 3 <= window.tokens.total <= budget


def test_counts_of_another_template() -> None:
    """After a change of the template, documents are counted again, and the window has the tokens of a new conversation."""
    old = talk(grounded("?", words(30)), grounding_template="{content} {documents}")
    new = talk(grounded("?", words(30)), grounding_template="{content}\n\nAll that is known of it:\n{documents}")
    vars(new)["stored"] = old.stored
    window, fresh = (
        new.window(Ask()),
        talk(*new.entries, grounding_template=new.settings.grounding_template).window(Ask()),
    )
    assert window.tokens == fresh.tokens
