"""Tool calls and their results in each provider's form."""

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
        """Uses follow the text in the assistant's turn; all results begin the next turn."""
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
        """Responses carry name and id and stand in the order of their calls."""
        assert rendered("gemini", *self.GROUP)["contents"] == [
            {"role": "user", "parts": [{"text": "Which talks are on today?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Let me see."},
                    {"function_call": {"id": "c1", "name": "talks", "args": {"day": 1}}},
                    {"function_call": {"id": "c2", "name": "rooms", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"function_response": {"id": "c1", "name": "talks", "response": {"output": "three"}}},
                    {"function_response": {"id": "c2", "name": "rooms", "response": {"output": "A, B"}}},
                ],
            },
        ]

    def test_anthropic_leaves_out_an_empty_result(self):
        """A result without words is a result without content."""
        request = rendered("anthropic", QUESTION, calling(("a", "look", "{}")), result("a", " "))

        assert request["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "a"}]

    def test_legacy_function_calls_get_an_id(self):
        """The pair of 2023 is told by its message's seq."""
        call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
        answer = {"role": "function", "name": "look", "content": "3"}

        _, called, answered = rendered("responses", QUESTION, call, answer)["input"]

        assert (called["call_id"], answered["call_id"], answered["output"]) == ("function_2", "function_2", "3")

    def test_custom_calls_keep_their_text(self):
        """Responses has custom calls; the others get the text as an object's input."""
        call = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
        messages = (QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]}, result("c", "1"))

        kinds = [item.get("type") for item in rendered("responses", *messages)["input"]]

        assert kinds == [None, "custom_tool_call", "custom_tool_call_output"]
        assert rendered("anthropic", *messages)["messages"][1]["content"][0]["input"] == {"input": "SELECT 1"}
        called = rendered("gemini", *messages)["contents"][1]["parts"][0]
        assert called["function_call"]["args"] == {"input": "SELECT 1"}

    @pytest.mark.parametrize(
        "arguments", ['{"day": ', "[1]", "5", "null", '{"a": NaN}', '{"a":' * 80 + "1" + "}" * 80, "[" * 50_000]
    )
    def test_arguments_that_are_no_object_are_wrapped(self, arguments):
        """A reply that was cut short does not block the conversation."""
        messages = (QUESTION, calling(("a", "look", arguments)), result("a", "what?"))

        used = rendered("anthropic", *messages)["messages"][1]["content"][0]
        called = rendered("gemini", *messages)["contents"][1]["parts"][0]["function_call"]

        assert {"INVALID_JSON": arguments} == used["input"] == called["args"]
        assert arguments == rendered("responses", *messages)["input"][1]["arguments"]

    def test_empty_arguments_are_an_empty_object(self):
        """Some models call a tool without parameters so."""
        used = rendered("anthropic", QUESTION, calling(("a", "look", "")), result("a", "3"))

        assert used["messages"][1]["content"][0]["input"] == {}

    def test_anthropic_ids_fit_its_alphabet(self):
        """An id of another provider is changed, in call and result alike, and told apart by the seq."""
        request = rendered(
            "anthropic", QUESTION, calling(("functions.look:0", "look", "{}")), result("functions.look:0", "3")
        )

        use, answer = request["messages"][1]["content"][0], request["messages"][2]["content"][0]

        assert "functions_look_0_2" == use["id"] == answer["tool_use_id"]

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_repeated_id_is_told_apart(self, form):
        """A provider that counts from call_0 each turn does not mix up its turns."""
        group = (calling(("call_0", "look", "{}")), result("call_0", "3"))

        text = str(rendered(form, QUESTION, *group, QUESTION, *group))

        assert text.count("'call_0'") == 2
        assert text.count("'call_0_5'") == 2

    def test_long_ids_are_cut(self):
        """The Responses API takes 64 characters."""
        call_id = "x" * 200

        items = rendered("responses", QUESTION, calling((call_id, "look", "{}")), result(call_id, "3"))["input"]

        assert len(items[1]["call_id"]) <= 64
        assert items[1]["call_id"] == items[2]["call_id"]

    def test_a_repeated_long_id_stays_unique(self):
        """Two ids that are equal once they are cut, in one message, get a number."""
        calls = calling(("x" * 100, "look", "{}"), ("x" * 101, "look", "{}"))

        items = rendered("responses", calls, result("x" * 101, "b"), result("x" * 100, "a"))["input"]

        assert items[0]["call_id"] == items[3]["call_id"] != items[1]["call_id"] == items[2]["call_id"]

    def test_gemini_sends_the_signature_of_a_thought_back(self):
        """It comes in the field of Google's OpenAI endpoint."""
        call = calling(("a", "look", "{}"))
        call["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2lnbmVk"}}

        request = rendered("gemini", QUESTION, call, result("a", "3"))

        assert request["contents"][1]["parts"][0]["thought_signature"] == "c2lnbmVk"

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_call_that_waits_at_the_end_is_sent(self, form):
        """The caller is about to add its result."""
        assert "'look'" in str(rendered(form, QUESTION, calling(("a", "look", "{}"))))

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_call_without_result_is_named(self, form):
        """Every provider answers 400 for it, and none says which message."""
        calls = calling(("a", "look", "{}"), ("b", "look", "{}"))

        assert pointers(form, QUESTION, calls, result("a", "3"), QUESTION) == ["#/messages/2/tool_calls/1"]

    @pytest.mark.parametrize("form", ELSEWHERE)
    @pytest.mark.parametrize("orphan", [result("a", "3"), {"role": "function", "name": "look", "content": "3"}])
    def test_a_result_without_call_is_named(self, form, orphan):
        """An orphan fits no form."""
        assert pointers(form, QUESTION, orphan) == ["#/messages/2"]
