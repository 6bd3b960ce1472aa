"""The log agrees with the sender's chat: the laws, the walk case by case, and what frontends were seen to send."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.agree_chats import WORDS, changed_lists, reply, result, screen, screens, user
from rigs.agreeing import (
    AGREE,
    NO_AGREE,
    Log,
    Message,
    from_ag_ui,
    from_ui,
    is_unfinished,
    richer,
    said,
    unseen,
    visible,
)

from sash.core.agree.agreement import ANYWHERE, Agreement, IsPart


def texts(log: Log) -> list[str | None]:
    return [each["content"] for each in log.messages]


# ---- any chat, on any screen


def ends_with_calls_alone(chat: list[Message], style: str) -> bool:
    """Whether the chat ends with a turn without words, of which only a rich screen shows anything."""
    seen = visible(chat)
    is_shown = [each for each in chat if not each.get("hidden") and each["role"] not in ("system", "tool")]
    ends_in_turn = bool(is_shown) and is_shown[-1]["role"] == "assistant"
    return style != "rich" and ends_in_turn and (not seen or seen[-1][0] == "user")


@given(screens())
@examples(4)
def test_what_a_screen_holds_changes_nothing(found: tuple[list[Message], str, str]) -> None:
    """PUT of what GET gives changes nothing, however the screen shows it."""
    chat, style, between = found
    log = Log(chat)
    before = [dict(each) for each in log.messages]
    if ends_with_calls_alone(chat, style):
        return
    agreement = log.put(screen(log.messages, style, between), is_whole=True)
    assert isinstance(agreement, Agreement)
    assert (log.messages, agreement.pieces) == (before, ())


@given(screens(), st.sampled_from(WORDS))
@examples(2)
def test_an_append_is_the_list_with_one_more(found: tuple[list[Message], str, str], text: str) -> None:
    """PUT of all with one more question appends it, and nothing else changes."""
    chat, style, between = found
    log = Log(chat)
    before = [dict(each) for each in log.messages]
    if ends_with_calls_alone(chat, style):
        return
    log.put([*screen(log.messages, style, between), user(text, id="new")], is_whole=True)
    assert log.messages == [*before, user(text, id="new")]


@given(screens(), st.data())
@examples(6)
def test_what_is_seen_is_the_senders(found: tuple[list[Message], str, str], data: st.DataObject) -> None:
    """Whatever a person pressed: the visible chat is the sender's then, PUT twice is PUT once, no id stands twice, and no
    call, result or reasoning of a turn that stays visible is lost."""
    chat, style, between = found
    log = Log(chat)
    for _ in range(3):
        sent = data.draw(changed_lists(screen(log.messages, style, between)))
        before, gone = [dict(each) for each in log.messages], len(log.displaced)
        agreement = log.put(sent, is_whole=True)
        assert isinstance(agreement, Agreement)
        seen, wanted = visible(log.messages), visible(sent)
        assert len(seen) == len(wanted)
        for (kind, words), (wanted_kind, wanted_words) in zip(seen, wanted, strict=True):
            is_longer = is_unfinished([*before, *sent, *log.messages]) and kind == "reply" and wanted_words in words
            assert kind == wanted_kind
            assert words == wanted_words or (kind == "reply" and words.endswith(wanted_words)) or is_longer
        ids = [each["id"] for each in log.messages]
        assert len(ids) == len(set(ids))
        standing = [dict(each) for each in log.messages]
        again = log.put(sent, is_whole=True)
        assert log.messages == standing, (before, sent)
        assert isinstance(again, Agreement)
        assert not again.pieces
        displaced = log.displaced[gone:]
        left = [*unseen(log.messages), *unseen(displaced)]
        assert all(left.count(each) >= 1 for each in unseen(before))


# ---- case by case

RICH = [user("q"), reply("let me see", "t1", reasoning_content="hm"), result("t1"), reply("here it is")]


@pytest.mark.parametrize(
    "shown",
    [
        [reply("here it is")],
        [reply("let me see here it is")],
        [reply("let me see\n\nhere it is")],
        [reply("let me see"), reply("here it is")],
    ],
)
def test_a_poorer_copy_replaces_nothing(shown: list[Message]) -> None:
    """A turn that a screen shows by its last text, or by all of them joined, stays as the log has it."""
    log = Log(RICH)
    log.put([user("q"), *shown, user("thanks")])
    assert (texts(log), log.displaced) == (["q", "let me see", "found", "here it is", "thanks"], [])


def test_a_turn_is_cut_behind_the_texts_that_are_shown() -> None:
    """Where the sender has the first text of a turn alone, its results stay, and what came after is displaced."""
    log = Log(RICH)
    log.put([user("q"), reply("let me see"), user("go on")])
    assert texts(log) == ["q", "let me see", "found", "go on"]


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_equal_words_are_told_apart_by_their_place(length: int) -> None:
    """A chat that says the same again and again is compared place by place."""
    chat = [user("ok"), reply("ok"), user("ok"), reply("ok")]
    log = Log(chat)
    log.put([*chat, user("ok")][:length], is_whole=True)
    assert len(log.messages) == length


def big() -> list[Message]:
    return [
        each
        for turn in range(40)
        for each in (
            user(f"u{turn}", id=f"u{turn}"),
            reply(f"a{turn}", f"c{turn}"),
            result(f"c{turn}"),
            reply(f"z{turn}"),
        )
    ]


def test_a_part_of_the_chat_is_refused() -> None:
    """A list of the last messages that does not say so would put away the rest, so it is refused, and the log stays."""
    log = Log(big())
    part = [*screen(log.messages, "texts", "")[-18:], user("new", id="new")]
    assert part[0]["role"] == "user"
    assert isinstance(log.put(part), IsPart)
    assert len(log.messages) == 160
    log.put(part, base=ANYWHERE)
    assert (len(log.messages), log.displaced) == (161, [])


def test_the_end_of_a_chat() -> None:
    """An id finds where the end begins: an edited question, its retry; and a question that is new is appended."""
    log = Log(big())
    log.put([user("edited", id="u39")], base=ANYWHERE)
    assert (len(log.messages), len(log.displaced)) == (157, 4)
    log.put([user("edited", id="u39")], base=ANYWHERE)
    assert len(log.messages) == 157
    log.put([user("brand new", id="x9")], base=ANYWHERE)
    assert len(log.messages) == 158


def test_the_same_words_under_a_new_id_are_a_new_question() -> None:
    """A lone question whose id the log does not have is appended, though the same was asked before."""
    log = Log([user("go on", id="a"), reply("one")])
    log.put([user("go on", id="b")], base=ANYWHERE)
    log.put([user("go on", id="b")], base=ANYWHERE)
    assert texts(log) == ["go on", "one", "go on"]


@pytest.mark.parametrize("begun", [[], [reply("", status="interrupted")], [reply("", status="in_progress")]])
def test_a_question_that_waits_for_its_reply_is_asked_again(begun: list[Message]) -> None:
    """A lone question in the words of the log's last one, which got no word of a reply, is that one, whatever its id."""
    log = Log([user("go on", id="a"), reply("one"), user("go on", id="b"), *begun])
    log.put([user("go on", id="c")], base=ANYWHERE)
    log.put([user("go on", id="d"), reply("", id="r", status="in_progress")], base=ANYWHERE)
    assert texts(log) == ["go on", "one", "go on", ""]
    log.put([user("why?", id="e")], base=ANYWHERE)
    assert texts(log) == ["go on", "one", "go on", "", "why?"]


@given(screens(), st.sampled_from([None, *WORDS]))
@examples(3)
def test_a_lone_question_is_new_or_the_one_that_waits(found: tuple[list[Message], str, str], other: str | None) -> None:
    """With list=end, a lone question under a new id is appended, unless the last question has its words and no reply: then
    nothing seen changes. Asked again under other ids it stands once, and behind a reply it is new."""
    log = Log(found[0])
    last = _waiting(log.messages)
    text = other or (last["content"] if last is not None and not last.get("redacted") else "go on")
    before = visible(log.messages)
    is_asked = last is not None and not last.get("redacted") and said(last).words == said(user(text)).words
    for identity in ("x-1", "x-1", "x-2"):
        log.put([user(text, id=identity)], base=ANYWHERE)
        assert visible(log.messages) == [*before, *visible([user(text)])][: len(before) + (not is_asked)]
    log.append([reply("a reply", id="x-3")])
    log.put([user(text, id="x-4")], base=ANYWHERE)
    assert visible(log.messages)[-2:] == visible([reply("a reply"), user(text)])


def _waiting(messages: list[Message]) -> Message | None:
    """The last question, where no word, call or picture of a reply stands behind it."""
    for each in reversed(messages):
        if each["role"] == "user" and not each.get("hidden"):
            return each
        if each["role"] == "assistant" and not each.get("hidden") and not said(each).is_bare:
            return None
    return None


@pytest.mark.parametrize("status", ["interrupted", "in_progress"])
@pytest.mark.parametrize("first", [reply("", "c"), reply("let me see", "c")])
def test_half_a_reply_in_a_loop_makes_room_for_the_next(status: str, first: Message) -> None:
    """A loop that is asked again from its results begins its reply there; asked twice, the same reply once."""
    loop = [user("q"), first, result("c")]
    log = Log([*loop, reply("At no", id="half", status=status)])
    log.put([*loop, reply("At no", id="half", status=status)], is_whole=True)
    assert texts(log)[-1] == "At no"
    for _ in range(2):
        log.put([*loop, reply("", id="next", status="in_progress")], base=ANYWHERE)
        assert [each["id"] for each in log.messages[3:]] == ["next"]
        assert [each["id"] for each in log.displaced] == ["half"]
    log.messages[-1]["content"] = "At noon"
    log.put([*loop, reply("", id="next", status="in_progress")], base=ANYWHERE)
    assert texts(log)[-1] == "At noon"


def test_half_a_reply_is_a_reply() -> None:
    """Behind half a reply the same words are a new question: whoever says so wants the other half."""
    log = Log([user("go on", id="a"), reply("o", status="interrupted")])
    log.put([user("go on", id="b")], base=ANYWHERE)
    assert texts(log) == ["go on", "o", "go on"]


def test_what_stands_behind_a_message() -> None:
    """With a base, the list is what stands behind it."""
    log = Log([user("ok"), reply("ok"), user("ok"), reply("ok")])
    log.put([user("ok"), reply("anew")], base=2)
    assert texts(log) == ["ok", "ok", "ok", "anew"]


def test_richer_messages_are_carried_over() -> None:
    """After a frontend's own summary, or an edit in place, the messages that are the same keep their calls and results."""
    log = Log(big())
    shown = screen(log.messages, "last", "")
    log.put([reply("a summary"), *shown[60:], user("new")])
    assert sum("tool_calls" in each for each in log.messages) == 10
    log = Log(big()[:12])
    edited = [
        {**each, "content": "edited"} if each.get("id") == "u0" else each for each in screen(big()[:12], "last", "")
    ]
    log.put(edited)
    assert [each["content"] for each in log.messages][:2] == ["edited", "a0"]
    assert sum("tool_calls" in each for each in log.messages) == 3


def test_a_rich_turn_stays_where_a_question_is_deleted() -> None:
    """Where a question and its turn are deleted, later turns are carried over, with what no screen shows."""
    log = Log([*RICH, {"role": "system", "content": "be brief"}, user("q2"), reply("a2", reasoning_content="hm")])
    log.put([user("q2"), reply("a2")], is_whole=True)
    assert texts(log) == ["be brief", "q2", "a2"]
    assert log.messages[-1]["reasoning_content"] == "hm"


@pytest.mark.parametrize("status", ["in_progress", "interrupted"])
@pytest.mark.parametrize("half", ["one", "one two three", "one two three four", ""])
def test_an_unfinished_reply_agrees_with_its_beginning(status: str, half: str) -> None:
    """A screen that shows a beginning, or more, of an unfinished reply agrees; an interrupted one's longer text stands."""
    log = Log([user("q"), reply("one two three", status=status, id="r")])
    log.put([user("q"), reply(half, status="interrupted"), user("next")], is_whole=True)
    longer = status == "interrupted" and half.endswith("four")
    assert texts(log) == ["q", half if longer else "one two three", "next"]
    assert log.messages[1]["id"] == "r"


def test_a_joined_screen_shows_more_of_an_interrupted_turn() -> None:
    """Where the screen joins a turn's texts, only what is behind the finished ones becomes the interrupted reply's."""
    log = Log([*RICH[:3], reply("here", status="interrupted", id="r")])
    log.put([user("q"), reply("let me see here it is", status="interrupted")])
    assert texts(log) == ["q", "let me see", "found", "here it is"]


def test_a_retry_leaves_no_empty_reply() -> None:
    """A reply that broke off before its first word is dropped when the question is asked again."""
    log = Log([user("q"), reply("", status="interrupted")])
    for _ in range(3):
        log.put([user("q")])
    assert (texts(log)) == ["q"]


def test_a_reply_that_the_screen_never_got_is_displaced() -> None:
    """The sender asks on without the log's reply: two questions in a row are its chat."""
    log = Log([user("u1"), reply("a1")])
    log.put([user("u1"), user("u2")])
    assert texts(log) == ["u1", "u2"]


def begun(name: str) -> Message:
    return reply("", id=name, status="in_progress")


def test_a_begun_reply_makes_a_turn_one_call() -> None:
    """Each step of a tool loop puts the chat with the reply that it begins, and a retry of it finds that one."""
    log = Log()
    for _ in range(2):
        log.put([user("q"), begun("R1")])
        assert [each["id"] for each in log.messages][1:] == ["R1"]
    log.messages[1] |= {**reply("Let me look.", "c1", reasoning_content="hm"), "status": None}
    step = [user("q"), reply("Let me look.", "c1"), result("c1")]
    log.put([*step, begun("R2")])
    assert [each["id"] for each in log.messages][-1] == "R2"
    assert log.messages[1]["reasoning_content"] == "hm"
    log.messages[-1]["status"] = "interrupted"
    log.put([*step, begun("R3")])
    assert [each["id"] for each in log.messages][-1] == "R3"
    assert len(log.messages) == 4
    log.messages[-1] |= {"content": "answer", "status": None}
    log.put([*step, begun("R3")])
    assert texts(log)[-1] == "answer"
    log.put([*step, begun("R4")])
    assert [each["content"] for each in log.displaced if each["content"]] == ["answer"]
    log.put([user("q"), begun("R5")])
    assert [each["id"] for each in log.messages][1:] == ["R5"]


def test_a_client_tools_result_is_taken() -> None:
    """A result for a call that nobody answered is appended, and the call keeps its reasoning; a second step is new."""
    log = Log([user("q"), reply("Let me look.", "c1", reasoning_content="hm")])
    sent = [user("q"), reply("Let me look.", "c1"), result("c1", "clicked")]
    log.put(sent)
    assert texts(log) == ["q", "Let me look.", "clicked"]
    assert log.messages[1]["reasoning_content"] == "hm"
    log.put([*sent, reply("done")])
    assert texts(log) == ["q", "Let me look.", "clicked", "done"]
    log.put([user("q"), reply("Let me look.", "c1"), result("c1", "another"), reply("done")])
    assert texts(log) == ["q", "Let me look.", "clicked", "done"]


def test_a_call_decides_between_turns_without_words() -> None:
    """The same words with another call are another turn; a turn without words is told by its calls."""
    log = Log([user("q"), reply(None, "c1")])
    log.put([user("q"), reply(None, "c1"), result("c1")])
    assert len(log.messages) == 3
    log.put([user("q")])
    assert texts(log) == ["q"]
    log = Log([user("q"), reply("Look.", "c1")])
    other = reply("Look.", "c2")
    other["tool_calls"][0]["function"]["name"] = "other"
    log.put([user("q"), other])
    assert [each["id"] for each in log.messages[1]["tool_calls"]] == ["c2"]


def test_a_further_call_of_the_screens_is_appended() -> None:
    """A turn that goes on with a call that the log does not have goes on in the log, too."""
    log = Log([user("q"), reply("Look.", "c1"), result("c1")])
    more = reply(None, "c2")
    more["tool_calls"][0]["function"]["name"] = "other"
    log.put([user("q"), reply("Look.", "c1"), result("c1"), more, result("c2")])
    assert [each["role"] for each in log.messages] == ["user", "assistant", "tool", "assistant", "tool"]


def test_a_turn_whose_later_call_is_shown_is_not_cut_before_it() -> None:
    """A turn of which a text between two calls was deleted is another turn, and the same list again changes nothing."""
    second = reply(None, "c2")
    second["tool_calls"][0]["function"]["name"] = "other"
    log = Log([user("q"), reply(None, "c1"), result("c1"), reply("ok"), second])
    sent = [user("q"), reply(None, "c1"), result("c1"), second]
    for _ in range(2):
        log.put(sent)
        assert texts(log) == ["q", None, "found", None]


# ---- system messages, hidden ones, media, erased ones


def test_the_senders_system_prompt_becomes_the_conversations() -> None:
    """Today's date in a prompt displaces nothing: the first system messages are the conversation's system prompt."""
    log = Log([user("q"), {"role": "system", "content": "a note"}, reply("a")])
    first = log.put([{"role": "system", "content": "today is 1"}, user("q"), reply("a")])
    again = log.put([{"role": "system", "content": "today is 1"}, user("q"), reply("a")])
    assert isinstance(first, Agreement)
    assert isinstance(again, Agreement)
    assert (first.system, first.pieces, again.system) == ("today is 1", (), None)
    assert len(log.messages) == 3


def test_system_messages_of_the_log_agree() -> None:
    """Equal system messages at the beginning agree; one in the middle agrees or is told, and is stored with what is new."""
    note, other = {"role": "system", "content": "note"}, {"role": "system", "content": "other"}
    log = Log([note, user("q"), reply("a")])
    found = log.put([note, user("q"), other, reply("a")])
    assert isinstance(found, Agreement)
    assert (found.system, found.ignored, found.pieces) == (None, (2,), ())
    for _ in range(2):
        log.put([note, user("q"), reply("a"), other, user("q2")])
        assert texts(log) == ["note", "q", "a", "other", "q2"]
    found = log.put([note, user("q"), reply("a"), other, user("q2"), {"role": "system", "content": "last"}])
    assert isinstance(found, Agreement)
    assert found.ignored == (5,)


def test_a_system_message_inside_a_new_turn_is_stored() -> None:
    """A system message between a call and its result comes with the turn, once, and then agrees."""
    note = {"role": "system", "content": "note"}
    log = Log()
    for _ in range(2):
        found = log.put([user("q"), reply("Look.", "c1"), note, result("c1"), reply("a")])
        assert isinstance(found, Agreement)
        assert (texts(log), found.ignored) == (["q", "Look.", "note", "found", "a"], ())


def test_a_late_result_is_taken() -> None:
    """A result behind a later question is in no turn: it is appended where its call waits, and stands once."""
    chat = [user("q"), reply("Look.", "c1"), user("q2"), result("c1"), reply("a2")]
    log = Log(chat[:3])
    for sent in (chat[:4], chat, chat, [*chat[:2], user("q3"), result("c1")]):
        log.put(sent)
        assert [each["role"] for each in log.messages].count("tool") == 1
    log = Log()
    log.put(chat)
    assert texts(log) == ["q", "Look.", "q2", "found", "a2"]


def test_hidden_messages_stay() -> None:
    """What the sender does not see stays, before what is displaced."""
    log = Log([{"role": "system", "content": "s"}, user("q"), reply("secret", hidden=True), reply("a"), user("q2")])
    log.put([user("q"), reply("a"), user("q2"), user("q3")])
    log.put([user("q"), reply("b")])
    assert texts(log) == ["s", "q", "secret", "b"]


def picture(url: str) -> Message:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"role": "user", "content": parts}


def test_media_differ_where_both_are_known() -> None:
    """Another picture is another question; one of which only an address is known may be the same."""
    one, other = (f"data:image/png;base64,{each * 8}" for each in "ab")
    log = Log([picture(one)])
    for same in (one, "https://example.org/x.png"):
        log.put([picture(same)])
        assert log.displaced == []
    log.put([picture(other)])
    assert len(log.displaced) == 1
    log.put([user("see")])
    assert len(log.displaced) == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("def f():\n  x", "def f():\n    x", False),
        ("caf\u00e9", "cafe\u0301", True),
        ("a\r\nb", "a\nb", True),
        (" a\n", "a", True),
    ],
)
def test_a_questions_words(one: str, other: str, *, same: bool) -> None:
    """Spaces inside a question count, since code is edited; its ends, line ends and composed letters do not."""
    log = Log([user(one), reply("ok")])
    log.put([user(other), reply("ok")], is_whole=True)
    assert (texts(log) == [one, "ok"]) is same


def test_erased_words_do_not_come_back() -> None:
    """A screen that still shows erased words agrees with the log, but an edit of an erased last question is new."""
    log = Log([user("[redacted]", redacted=True, id="u"), reply("[redacted]", redacted=True), user("q2")])
    log.put([user("my secret", id="u"), reply("told"), user("q2"), user("q3")])
    assert texts(log) == ["[redacted]", "[redacted]", "q2", "q3"]
    log.put([user("another question", id="u")])
    assert texts(log) == ["another question"]


# ---- what frontends were seen to send

_FRESH = (
    "first", "model fails then regenerate", "stop then regenerate", "server ids", "no originalMessages",
    "server tool, reasoning", "client tool addToolOutput", "client tool with server ids", "approval",
    "client tool ignored, next question", "file and metadata",
)  # fmt: skip
_STORED = {
    "hydrate": [user("u1", id="h1"), reply("a1", "c1")],
    "setMessages": [
        user("u1", id="d0"),
        reply("a1", id="d1"),
        user("u2", id="d2"),
        reply(None, "c9", id="d3", reasoning_content="hm"),
        result("c9"),
        reply("a2"),
    ],
}


def agrees(log: Log, sent: list[Message]) -> None:
    """Put a captured list twice: what is seen is the sender's then, and no call or reasoning was lost."""
    before = unseen(log.messages)
    assert isinstance(log.put(sent, is_whole=True), Agreement)
    standing = [dict(each) for each in log.messages]
    log.put(sent, is_whole=True)
    assert log.messages == standing
    assert [words for kind, words in visible(log.messages) if kind == "user"] == [
        words for kind, words in visible(sent) if kind == "user"
    ]
    assert set(before) <= {*unseen(log.messages), *unseen(log.displaced)}


@pytest.mark.skipif(not AGREE.is_dir(), reason=NO_AGREE)
@pytest.mark.parametrize("version", ["6", "7"])
def test_what_the_ai_sdk_sends(version: str) -> None:
    """Of every captured run of AI SDK, each request agrees, and what the screen holds then changes nothing."""
    log = Log()
    for run in json.loads((AGREE / f"ai-sdk-{version}.json").read_bytes()):
        name = run["name"]
        stored = next((chat for begin, chat in _STORED.items() if name.startswith(begin)), None)
        if stored is not None or name in _FRESH:
            log = Log(stored or [])
        for step in run["steps"]:
            sent = from_ui(step.get("put") or step["holds"])
            if "put" in step:
                agrees(log, sent)
                continue
            log.append(richer(sent, log))
            before = [dict(each) for each in log.messages]
            log.put(sent)
            assert log.messages == before, name
        if name.startswith("setMessages"):
            assert any("c9" in str(each.get("tool_calls")) for each in log.messages)


@pytest.mark.skipif(not AGREE.is_dir(), reason=NO_AGREE)
def test_what_ag_ui_sends() -> None:
    """Each captured request of AG-UI's client agrees."""
    log = Log()
    for step in json.loads((AGREE / "ag-ui-1.json").read_bytes()):
        sent = from_ag_ui(step.get("put") or step["holds"])
        log = Log() if len(step.get("put") or ()) == 1 else log
        agrees(log, sent)


@pytest.mark.skipif(not AGREE.is_dir(), reason=NO_AGREE)
def test_what_langgraph_sends() -> None:
    """Each captured state of LangGraph agrees; the one that lacks its beginning is told."""
    log, parts = Log(), 0
    for step in json.loads((AGREE / "langgraph-1.json").read_bytes()):
        sent = step.get("put") or step["holds"]
        sent = [{**each, "id": each.get("id") or None} for each in sent]
        if isinstance(Log(log.messages).put(sent), IsPart):
            parts += 1
        agrees(log, sent)
        assert visible(log.messages) == visible(sent)
    assert parts == 1
