"""Tool calls and their results in each provider's format."""

import pytest
from format_histories import ELSEWHERE, QUESTION, calling, pointers, rendered, result


class TestToolCalls:
    GROUP = (
        QUESTION,
        calling(("c1", "talks", '{"day": 1}'), ("c2", "rooms", "{}"), content="Let me see."),
        result("c2", "A, B"),
        result("c1", "three"),
    )

    def test_responses(self):
        """Text, calls and outputs are items of their own, joined by call_id."""
        assert rendered("responses", *self.GROUP)["input"] == [
            {"role": "user", "content": "Which talks are on today?"},
            {"role": "assistant", "content": "Let me see."},
            {"type": "function_call", "call_id": "c1", "name": "talks", "arguments": '{"day": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "rooms", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c2", "output": "A, B"},
            {"type": "function_call_output", "call_id": "c1", "output": "three"},
        ]

    def test_anthropic(self):
        """Tool uses follow the text in the assistant turn, and all results begin the next turn."""
        question = {"role": "user", "content": "Thanks!"}

        assert rendered("anthropic", *self.GROUP, question)["messages"] == [
            {"role": "user", "content": [{"type": "text", "text": "Which talks are on today?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "c1", "name": "talks", "input": {"day": 1}},
                    {"type": "tool_use", "id": "c2", "name": "rooms", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "A, B"}]},
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "three"}]},
                    {"type": "text", "text": "Thanks!"},
                ],
            },
        ]

    def test_gemini(self):
        """Function responses have the name and id of their calls, and are in the order of the calls."""
        assert rendered("gemini", *self.GROUP)["contents"] == [
            {"role": "user", "parts": [{"text": "Which talks are on today?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Let me see."},
                    {"functionCall": {"id": "c1", "name": "talks", "args": {"day": 1}}},
                    {"functionCall": {"id": "c2", "name": "rooms", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "talks", "response": {"output": "three"}}},
                    {"functionResponse": {"id": "c2", "name": "rooms", "response": {"output": "A, B"}}},
                ],
            },
        ]

    def test_anthropic_leaves_out_an_empty_result(self):
        """A blank result is sent without content."""
        request = rendered("anthropic", QUESTION, calling(("a", "look", "{}")), result("a", " "))

        assert request["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "a"}]

    def test_legacy_function_calls_get_an_id(self):
        """A legacy function call and its result get an id with the call's seq."""
        call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
        answer = {"role": "function", "name": "look", "content": "3"}

        _, called, answered = rendered("responses", QUESTION, call, answer)["input"]

        assert (called["call_id"], answered["call_id"], answered["output"]) == ("function_2", "function_2", "3")

    def test_custom_calls_keep_their_text(self):
        """Responses gets a custom call; Anthropic and Gemini get its text as ``input`` in an object."""
        call = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
        messages = (QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]}, result("c", "1"))

        kinds = [item.get("type") for item in rendered("responses", *messages)["input"]]

        assert kinds == [None, "custom_tool_call", "custom_tool_call_output"]
        assert rendered("anthropic", *messages)["messages"][1]["content"][0]["input"] == {"input": "SELECT 1"}
        called = rendered("gemini", *messages)["contents"][1]["parts"][0]
        assert called["functionCall"]["args"] == {"input": "SELECT 1"}

    @pytest.mark.parametrize(
        "arguments", ['{"day": ', "[1]", "5", "null", '{"a": NaN}', '{"a":' * 80 + "1" + "}" * 80, "[" * 50_000]
    )
    def test_arguments_that_are_no_object_are_wrapped(self, arguments):
        """Anthropic and Gemini get invalid arguments in an object, so a truncated reply does not block the conversation."""
        messages = (QUESTION, calling(("a", "look", arguments)), result("a", "what?"))

        used = rendered("anthropic", *messages)["messages"][1]["content"][0]
        called = rendered("gemini", *messages)["contents"][1]["parts"][0]["functionCall"]

        assert {"INVALID_JSON": arguments} == used["input"] == called["args"]
        assert arguments == rendered("responses", *messages)["input"][1]["arguments"]

    def test_empty_arguments_are_an_empty_object(self):
        """Empty arguments, which some models send to a tool without parameters, become an empty object."""
        used = rendered("anthropic", QUESTION, calling(("a", "look", "")), result("a", "3"))

        assert used["messages"][1]["content"][0]["input"] == {}

    def test_anthropic_ids_fit_its_alphabet(self):
        """An id with characters that Anthropic refuses is changed in call and result, and gets the call's seq."""
        request = rendered(
            "anthropic", QUESTION, calling(("functions.look:0", "look", "{}")), result("functions.look:0", "3")
        )

        use, answer = request["messages"][1]["content"][0], request["messages"][2]["content"][0]

        assert "functions_look_0_2" == use["id"] == answer["tool_use_id"]

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_repeated_id_is_told_apart(self, form):
        """A repeated id gets the call's seq, because some providers count from call_0 in each turn."""
        group = (calling(("call_0", "look", "{}")), result("call_0", "3"))

        text = str(rendered(form, QUESTION, *group, QUESTION, *group))

        assert text.count("'call_0'") == 2
        assert text.count("'call_0_5'") == 2

    def test_long_ids_are_cut(self):
        """A long id is cut to the 64 characters of the Responses API, in call and result."""
        call_id = "x" * 200

        items = rendered("responses", QUESTION, calling((call_id, "look", "{}")), result(call_id, "3"))["input"]

        assert len(items[1]["call_id"]) <= 64
        assert items[1]["call_id"] == items[2]["call_id"]

    def test_a_repeated_long_id_stays_unique(self):
        """Two ids in one message that would be equal after the cut stay different."""
        calls = calling(("x" * 100, "look", "{}"), ("x" * 101, "look", "{}"))

        items = rendered("responses", calls, result("x" * 101, "b"), result("x" * 100, "a"))["input"]

        assert items[0]["call_id"] == items[3]["call_id"] != items[1]["call_id"] == items[2]["call_id"]

    def test_gemini_sends_the_signature_of_a_thought_back(self):
        """A call's thought signature, in the field of Google's OpenAI endpoint, is sent back to Gemini."""
        call = calling(("a", "look", "{}"))
        call["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2lnbmVk"}}

        request = rendered("gemini", QUESTION, call, result("a", "3"))

        assert request["contents"][1]["parts"][0]["thoughtSignature"] == "c2lnbmVk"

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_call_that_waits_at_the_end_is_sent(self, form):
        """A call at the end is sent without a result, because the client adds the result next."""
        assert "'look'" in str(rendered(form, QUESTION, calling(("a", "look", "{}"))))

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_call_without_result_is_named(self, form):
        """A call without its result is refused with its place, because providers answer 400 without naming the message."""
        calls = calling(("a", "look", "{}"), ("b", "look", "{}"))

        assert pointers(form, QUESTION, calls, result("a", "3"), QUESTION) == ["#/messages/2/tool_calls/1"]

    @pytest.mark.parametrize("form", ELSEWHERE)
    @pytest.mark.parametrize("orphan", [result("a", "3"), {"role": "function", "name": "look", "content": "3"}])
    def test_a_result_without_call_is_named(self, form, orphan):
        """A result without its call is refused with its place."""
        assert pointers(form, QUESTION, orphan) == ["#/messages/2"]
