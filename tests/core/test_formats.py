"""System text and turns in each provider's format."""

import pytest
from format_histories import ELSEWHERE, QUESTION, calling, function, rendered, result

from sash.core.providers import PROVIDERS


class TestOpenAI:
    def test_messages_are_the_kept_ones(self):
        """Messages are sent unchanged, with their unknown fields."""
        message = {"role": "user", "content": "hi", "vendor_field": {"a": 1}}

        assert {"messages": [message]} == rendered("openai", message)

    def test_tools_and_choice_go_along(self):
        """The tools and the choice are sent as they are."""
        tools = [function("look")]

        request = rendered("openai", QUESTION, tools=tools, tool_choice="required")

        assert {"messages": [QUESTION], "tools": tools, "tool_choice": "required"} == request

    @pytest.mark.parametrize("form", PROVIDERS)
    def test_no_tools_no_choice(self, form):
        """Without tools no choice is sent, because every provider answers 400 to a choice without tools."""
        assert "tool" not in str(rendered(form, QUESTION, tools=[], tool_choice="auto").keys())
        assert "tool" not in str(rendered(form, QUESTION, tool_choice="auto").get("config", {}))


class TestSystemText:
    MESSAGES = (
        {"role": "system", "content": "Be brief."},
        QUESTION,
        {"role": "developer", "content": [{"type": "text", "text": "Now in "}, {"type": "text", "text": "German."}]},
        {"role": "assistant", "content": "Drei."},
    )

    def test_responses_keeps_later_system_text_in_its_place(self):
        """The first system text becomes instructions; later system text stays in its place."""
        request = rendered("responses", *self.MESSAGES)

        assert request["instructions"] == "Be brief."
        assert [item["role"] for item in request["input"]] == ["user", "developer", "assistant"]

    def test_system_texts_before_all_messages_are_one(self):
        """Leading system texts are joined in order by blank lines, outside of the turns."""
        first, *rest = self.MESSAGES
        request = rendered("anthropic", first, {"role": "developer", "content": "Now in German."}, *rest)

        assert request["system"] == "Be brief.\n\nNow in German."

    @pytest.mark.parametrize(
        ("form", "turns"),
        [("anthropic", "messages"), ("gemini", "contents"), ("interactions", "input"), ("converse", "messages")],
    )
    def test_a_later_system_text_stays_in_its_place(self, form, turns):
        """A system text behind other messages is a text of the user's, and what stands before it does not change."""
        request, before = rendered(form, *self.MESSAGES), rendered(form, *self.MESSAGES[:2])

        assert "Be brief." in str(request)
        assert "German" not in str({**request, turns: []})
        assert {**request, turns: []} == {**before, turns: []}
        assert all(words in str(request[turns][-2]) for words in ("System note: ", "Now in German."))
        assert "German." in str(request[turns][-2])

    @pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-sonnet-5"])
    def test_a_model_that_takes_the_role_gets_it(self, model):
        """Claude from Opus 4.8 on takes system messages among the others."""
        request = rendered("anthropic", *self.MESSAGES, model=model)

        assert [message["role"] for message in request["messages"]] == ["user", "system", "assistant"]
        assert request["system"] == "Be brief."

    def test_anthropic_keeps_the_mark_of_the_prompt_cache(self):
        """System text with a mark of the prompt cache is sent as blocks, which keep the mark."""
        mark = {"type": "ephemeral"}
        part = {"type": "text", "text": "Long rules.", "cache_control": mark}

        request = rendered("anthropic", {"role": "system", "content": [part]}, QUESTION)

        assert [{"type": "text", "text": "Long rules.", "cache_control": mark}] == request["system"]

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_fixed_parts_alone_give_no_messages(self, form):
        """A conversation without messages gives its system text and an empty list."""
        request = rendered(form, {"role": "system", "content": "Be brief."})

        assert "Be brief." in str(request)
        assert request.get("input", request.get("messages", request.get("contents"))) == []

    def test_a_system_message_between_call_and_result_does_not_part_them(self):
        """A system message between a call and its result stands behind the result, which follows its call."""
        request = rendered(
            "anthropic", QUESTION, calling(("a", "look", "{}")), {"role": "system", "content": "Hm."}, result("a", "3")
        )

        assert request["messages"][2]["content"][0]["type"] == "tool_result"


class TestTurns:
    def test_anthropic_merges_consecutive_roles(self):
        """Two user messages in a row are one turn of two blocks."""
        request = rendered("anthropic", QUESTION, {"role": "user", "content": "And tomorrow?"})

        assert [[block["text"] for block in message["content"]] for message in request["messages"]] == [
            ["Which talks are on today?", "And tomorrow?"]
        ]

    @pytest.mark.parametrize(("form", "where"), [("anthropic", "messages"), ("gemini", "contents")])
    def test_a_greeting_gets_a_user_turn_before_it(self, form, where):
        """A history that begins with the assistant gets a neutral user turn before it."""
        turns = rendered(form, {"role": "assistant", "content": "Hello!"}, QUESTION)[where]

        assert turns[0]["role"] == "user"
        assert "…" in str(turns[0])
        assert "Hello!" in str(turns[1])

    @pytest.mark.parametrize("blank", ["", " \n"])
    def test_anthropic_never_sends_a_blank_text_block(self, blank):
        """A blank assistant message is left out, and a blank user message becomes "…"."""
        request = rendered(
            "anthropic", QUESTION, {"role": "assistant", "content": blank}, {"role": "user", "content": blank}
        )

        assert [[block["text"] for block in message["content"]] for message in request["messages"]] == [
            ["Which talks are on today?", "…"]
        ]

    def test_anthropic_last_assistant_text_has_no_space_at_its_end(self):
        """The last assistant text loses white space at its end, to which Anthropic answers 400; earlier texts keep it."""
        reply = {"role": "assistant", "content": "Three. \n"}

        request = rendered("anthropic", QUESTION, reply, QUESTION, reply)

        assert request["messages"][1]["content"][0]["text"] == "Three. \n"
        assert request["messages"][3]["content"][0]["text"] == "Three."

    def test_responses_leaves_out_empty_assistant_messages_alone(self):
        """An empty assistant message is left out, and an empty user message is sent as empty text."""
        request = rendered("responses", {"role": "assistant", "content": None}, {"role": "user", "content": ""})

        assert request["input"] == [{"role": "user", "content": ""}]

    @pytest.mark.parametrize("form", ELSEWHERE)
    @pytest.mark.parametrize(
        "message",
        [
            {"role": "assistant", "content": None, "refusal": "I must not."},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "I must not."}]},
            {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "I must not."}},
        ],
    )
    def test_a_refusal_or_transcript_is_the_assistants_text(self, form, message):
        """The text of a refusal or of an audio transcript is sent."""
        assert "I must not." in str(rendered(form, QUESTION, message))

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_users_name_comes_before_the_words(self, form):
        """A user's name is sent in a part of its own, before the content."""
        request = rendered(form, {"role": "user", "name": "alice", "content": "hi"})

        assert str(request).index("'alice: '") < str(request).index("'hi'")

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_an_assistants_name_is_left_out(self, form):
        """An assistant's name is not sent, because the model would begin its own replies with it."""
        assert "bot" not in str(rendered(form, QUESTION, {"role": "assistant", "name": "bot", "content": "hi"}))
