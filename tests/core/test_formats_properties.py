"""Properties of every format, for any history: turns alternate, results follow their calls, and no text is lost."""

import re
from collections.abc import Callable
from itertools import pairwise, takewhile
from typing import Any, get_args

import msgspec
from format_histories import ELSEWHERE, PNG, calling, function, result
from hypothesis import given
from hypothesis import strategies as st

from sash.core.providers import PROVIDERS, render_request
from sash.core.providers.form.cache_marks import CacheKind, Places
from sash.core.providers.reading.native import read_messages
from sash.core.providers.writing.turns import Outgoing

WORD = re.compile(r"w\d+w")
"""Texts of a generated history are numbered, so that tests can check that each is sent once and in order."""

IDS = ("call_0", "functions.look:0", "x" * 100, "tool|é", "a-b_C")
ARGUMENTS = ("", "{}", '{"day": 1}', "[1]", '{"day"')


class Drawn(msgspec.Struct):
    """A generated history, with its numbered texts: system text, text of users and assistants, and tool results."""

    messages: list[Outgoing] = []
    system: list[str] = []
    said: list[str] = []
    results: list[str] = []
    words: int = 0

    def add(self, message: dict[str, Any]) -> None:
        self.messages.append(Outgoing(len(self.messages) + 1, message))

    def word(self, heap: list[str]) -> str:
        self.words += 1
        heap.append(f"w{self.words}w")
        return heap[-1]


@st.composite
def histories(draw: st.DrawFn, *more: Callable[[st.DrawFn, Drawn], None]) -> Drawn:
    """Draw a history that providers allow: the results directly follow their calls, in any order."""
    drawn = Drawn()
    for kind in draw(st.lists(st.sampled_from([*KINDS, *more]), max_size=12)):
        kind(draw, drawn)
    return drawn


def system(draw: st.DrawFn, drawn: Drawn) -> None:
    drawn.add({"role": draw(st.sampled_from(["system", "developer"])), "content": drawn.word(drawn.system)})


def user(draw: st.DrawFn, drawn: Drawn) -> None:
    name = draw(st.sampled_from([{}, {"name": "alice"}]))
    drawn.add({"role": "user", "content": drawn.word(drawn.said), **name})


def shown(draw: st.DrawFn, drawn: Drawn) -> None:
    image = {"type": "image_url", "image_url": {"url": draw(st.sampled_from([PNG, "https://x.test/a.png"]))}}
    text = {"type": "text", "text": drawn.word(drawn.said)}
    drawn.add({"role": "user", "content": draw(st.permutations([text, image, {"type": "text", "text": ""}]))})


def assistant(_: st.DrawFn, drawn: Drawn) -> None:
    drawn.add({"role": "assistant", "content": drawn.word(drawn.said)})


def blank(draw: st.DrawFn, drawn: Drawn) -> None:
    messages = [{"role": "user", "content": ""}, {"role": "user", "content": " \n"}]
    messages += [{"role": "assistant", "content": content} for content in (None, "", " ")]
    drawn.add(draw(st.sampled_from(messages)))


def group(draw: st.DrawFn, drawn: Drawn) -> None:
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True))
    content = drawn.word(drawn.said) if draw(st.booleans()) else None
    drawn.add(calling(*((i, "look", draw(st.sampled_from(ARGUMENTS))) for i in ids), content=content))
    for call_id in draw(st.permutations(ids)):
        drawn.add(result(call_id, drawn.word(drawn.results) if draw(st.booleans()) else ""))


def legacy(draw: st.DrawFn, drawn: Drawn) -> None:
    call = {"name": "look", "arguments": draw(st.sampled_from(ARGUMENTS))}
    drawn.add({"role": "assistant", "content": None, "function_call": call})
    drawn.add({"role": "function", "name": "look", "content": drawn.word(drawn.results)})


KINDS = (system, user, shown, assistant, blank, group, legacy)


def came(draw: st.DrawFn, drawn: Drawn) -> None:
    """Add a message that came in another provider's form."""
    form = draw(st.sampled_from(ELSEWHERE))
    own: dict[str, Any] = {"role": draw(st.sampled_from(["user", "assistant"])), "content": drawn.word(drawn.said)}
    if form == "gemini":
        own = {"role": draw(st.sampled_from(["user", "model"])), "parts": [{"text": drawn.word(drawn.said)}]}
    drawn.add(read_messages(form, [own], [""])[0].message)


def text(draw: st.DrawFn, drawn: Drawn) -> None:
    """Add a text of any characters."""
    drawn.add({"role": draw(st.sampled_from(["user", "assistant"])), "content": draw(st.text(max_size=8))})


def render(form: str, drawn: Drawn) -> dict[str, Any]:
    return render_request(form, drawn.messages, tools=[function("look")], tool_choice="auto")


def words(value: Any) -> list[str]:
    return WORD.findall(msgspec.json.encode(value).decode())


def nothing_is_lost(drawn: Drawn, system: Any, turns: list[dict[str, Any]]) -> None:
    found, messages = words(turns), [each.message for each in drawn.messages]
    leading = words([*takewhile(lambda each: each["role"] in ("system", "developer"), messages)])
    assert words(system) == leading
    in_place = sorted({*drawn.said, *drawn.system} - {*leading}, key=lambda word: int(word[1:-1]))
    assert [word for word in found if word in in_place] == in_place
    assert sorted(word for word in found if word in drawn.results) == sorted(drawn.results)
    assert len(found) == len(in_place) + len(drawn.results)


def written(form: str, drawn: Drawn, *hints: Any) -> bytes:
    request = render(form, drawn)
    return msgspec.json.encode(PROVIDERS[form].mark(request, *hints, "key") if hints else request)


CACHES = st.sampled_from([None, *get_args(CacheKind)])
PLACES = st.builds(Places, st.booleans(), st.booleans(), st.booleans())


class TestEveryForm:
    @given(histories(came, text), st.sampled_from(ELSEWHERE), CACHES, PLACES)
    def test_a_plain_message_is_written_like_one_with_more_members(self, drawn, form, kind, places):
        """A message that is a text alone gives the same bytes as one with an empty member more, with hints and without."""
        fuller = [
            each if "native" in each.message else Outgoing(each.seq, each.message | {"refusal": None})
            for each in drawn.messages
        ]

        for hints in ((), (kind, places)):
            assert written(form, drawn, *hints) == written(form, Drawn(fuller), *hints)

    @given(histories(came, text), st.sampled_from(ELSEWHERE), CACHES, PLACES)
    def test_hints_are_those_of_the_request_as_json(self, drawn, form, kind, places):
        """Hints added to a request are those that its JSON would get, and the request given is not changed."""
        request = render(form, drawn)
        sent = msgspec.json.encode(request)

        hints = [PROVIDERS[form].mark(each, kind, places, "key") for each in (request, msgspec.json.decode(sent))]

        assert msgspec.json.encode(hints[0]) == msgspec.json.encode(hints[1])
        assert msgspec.json.encode(request) == sent


class TestAnthropic:
    @given(histories())
    def test_no_word_is_lost(self, drawn):
        """Each text is sent once; system text, and the text of users and assistants, stay in order."""
        request = render("anthropic", drawn)

        nothing_is_lost(drawn, request.get("system", ""), request["messages"])

    @given(histories())
    def test_turns_alternate_from_the_user(self, drawn):
        """Turns alternate between user and assistant, beginning with the user, and none is empty."""
        messages = render("anthropic", drawn)["messages"]

        assert [m["role"] for m in messages] == [("user", "assistant")[i % 2] for i in range(len(messages))]
        assert all(message["content"] for message in messages)

    @given(histories())
    def test_results_begin_the_turn_after_their_calls(self, drawn):
        """The first blocks of a turn are the results of exactly the calls before it, and ids are unique and allowed."""
        messages = render("anthropic", drawn)["messages"]
        ids = [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]

        for before, after in pairwise([{"content": []}, *messages, {"content": []}]):
            used = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
            answers = [block for block in after["content"] if block["type"] == "tool_result"]
            assert after["content"][: len(answers)] == answers
            assert sorted(used) == sorted(block["tool_use_id"] for block in answers)
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call_id) for call_id in ids)

    @given(histories())
    def test_no_text_block_is_blank(self, drawn):
        """No text block is blank, and the last assistant text does not end with white space."""
        messages = render("anthropic", drawn)["messages"]
        texts = [b["text"] for m in messages for b in m["content"] if b["type"] == "text"]

        assert all(text.strip() for text in texts)
        if messages and messages[-1]["role"] == "assistant" and messages[-1]["content"][-1]["type"] == "text":
            assert messages[-1]["content"][-1]["text"] == texts[-1].rstrip()


class TestGemini:
    @given(histories())
    def test_no_word_is_lost(self, drawn):
        """Each text is sent once; system text, and the text of users and assistants, stay in order."""
        request = render("gemini", drawn)

        nothing_is_lost(drawn, request["config"].get("systemInstruction", ""), request["contents"])

    @given(histories())
    def test_turns_alternate_from_the_user(self, drawn):
        """Turns alternate between user and model, beginning with the user, and none is empty."""
        contents = render("gemini", drawn)["contents"]

        assert [c["role"] for c in contents] == [("user", "model")[i % 2] for i in range(len(contents))]
        assert all(content["parts"] for content in contents)

    @given(histories())
    def test_responses_answer_the_calls_before_them(self, drawn):
        """Function responses begin the turn after their calls, with the same ids and names in the same order."""
        contents = render("gemini", drawn)["contents"]

        for before, after in pairwise([{"parts": []}, *contents, {"parts": []}]):
            calls = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
            answers = [part["functionResponse"] for part in after["parts"] if "functionResponse" in part]
            assert [(c["id"], c["name"]) for c in calls] == [(a["id"], a["name"]) for a in answers]
            assert all("functionResponse" in part for part in after["parts"][: len(answers)])


class TestResponses:
    @given(histories())
    def test_no_word_is_lost(self, drawn):
        """Each text is sent once and in order, leading system text as instructions."""
        request = render("responses", drawn)
        in_order = [word for m in drawn.messages for word in words(m.message)]

        assert words(request.get("instructions", "")) + words(request["input"]) == in_order

    @given(histories())
    def test_each_output_follows_its_call(self, drawn):
        """Every call id is used once by a call, and once by an output after it."""
        items = [item for item in render("responses", drawn)["input"] if "call_id" in item]
        places = {(item["type"], item["call_id"]): place for place, item in enumerate(items)}
        calls = [call_id for kind, call_id in places if kind == "function_call"]

        assert len(places) == len(items) == 2 * len(calls)
        assert all(places["function_call", i] < places["function_call_output", i] for i in calls)


class TestWindows:
    @given(histories(), st.sampled_from(["responses", "anthropic", "gemini"]))
    def test_kept_messages_are_not_changed(self, drawn, form):
        """Rendering does not change the kept messages, which all formats share."""
        before = msgspec.json.encode(drawn.messages)

        render(form, drawn)

        assert msgspec.json.encode(drawn.messages) == before

    @given(histories(), st.sampled_from(["input", "messages", "contents"]), st.integers(0, 20))
    def test_a_growing_history_leaves_the_turns_before_the_last(self, drawn, turns, length):
        """As a history grows, all turns but the last stay the same, so that the provider's prompt cache can be used."""
        form = {"input": "responses", "messages": "anthropic", "contents": "gemini"}[turns]
        earlier = render(form, msgspec.structs.replace(drawn, messages=drawn.messages[:length]))[turns][:-1]

        assert render(form, drawn)[turns][: len(earlier)] == earlier
