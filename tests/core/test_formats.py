"""What each provider's form makes of system text and turns."""

import pytest
from format_histories import ELSEWHERE, QUESTION, calling, function, rendered, result

from service.core.formats import FORMATS


class TestOpenAI:
    def test_messages_are_the_kept_ones(self):
        """Nothing is changed, unknown fields included."""
        message = {"role": "user", "content": "hi", "vendor_field": {"a": 1}}

        assert {"messages": [message]} == rendered("openai", message)

    def test_tools_and_choice_go_along(self):
        """The tools and the choice are sent as they are."""
        tools = [function("look")]

        request = rendered("openai", QUESTION, tools=tools, tool_choice="required")

        assert {"messages": [QUESTION], "tools": tools, "tool_choice": "required"} == request

    @pytest.mark.parametrize("form", FORMATS)
    def test_no_tools_no_choice(self, form):
        """A choice without tools is a 400 everywhere, so neither is sent."""
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
        """The first becomes instructions; a later one stays where it was."""
        request = rendered("responses", *self.MESSAGES)

        assert request["instructions"] == "Be brief."
        assert [item["role"] for item in request["input"]] == ["user", "developer", "assistant"]

    def test_anthropic_moves_all_of_it_up(self):
        """System text is joined in order by blank lines, and the turns close up."""
        request = rendered("anthropic", *self.MESSAGES)

        assert request["system"] == "Be brief.\n\nNow in German."
        assert [message["role"] for message in request["messages"]] == ["user", "assistant"]

    def test_gemini_moves_all_of_it_up(self):
        """The same for Gemini, as the system instruction."""
        request = rendered("gemini", *self.MESSAGES)

        assert request["config"]["system_instruction"] == "Be brief.\n\nNow in German."
        assert [content["role"] for content in request["contents"]] == ["user", "model"]

    def test_anthropic_keeps_the_mark_of_the_prompt_cache(self):
        """A part that ends the prompt cache needs blocks instead of a string."""
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
        """It is hoisted, so the result still comes right after its call."""
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
        """A history that the assistant begins has a neutral user turn put first."""
        turns = rendered(form, {"role": "assistant", "content": "Hello!"}, QUESTION)[where]

        assert turns[0]["role"] == "user"
        assert "…" in str(turns[0])
        assert "Hello!" in str(turns[1])

    @pytest.mark.parametrize("blank", ["", " \n"])
    def test_anthropic_never_sends_a_blank_text_block(self, blank):
        """A blank assistant message is left out, a blank question becomes a sign of one."""
        request = rendered(
            "anthropic", QUESTION, {"role": "assistant", "content": blank}, {"role": "user", "content": blank}
        )

        assert [[block["text"] for block in message["content"]] for message in request["messages"]] == [
            ["Which talks are on today?", "…"]
        ]

    def test_anthropic_last_assistant_text_has_no_space_at_its_end(self):
        """White space at the end of a last assistant turn is a 400; inside the history it stays."""
        reply = {"role": "assistant", "content": "Three. \n"}

        request = rendered("anthropic", QUESTION, reply, QUESTION, reply)

        assert request["messages"][1]["content"][0]["text"] == "Three. \n"
        assert request["messages"][3]["content"][0]["text"] == "Three."

    def test_responses_leaves_out_empty_assistant_messages_alone(self):
        """An empty question is sent as empty text."""
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
        """Its words stay in the history."""
        assert "I must not." in str(rendered(form, QUESTION, message))

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_users_name_comes_before_the_words(self, form):
        """Who speaks is said in a part of its own."""
        request = rendered(form, {"role": "user", "name": "alice", "content": "hi"})

        assert str(request).index("'alice: '") < str(request).index("'hi'")

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_an_assistants_name_is_left_out(self, form):
        """The model would begin its own replies with it."""
        assert "bot" not in str(rendered(form, QUESTION, {"role": "assistant", "name": "bot", "content": "hi"}))
