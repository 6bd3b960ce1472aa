// One conversation through the generated client: created, appended to, read as a window and as a page, erased.

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import sash.ApiClient;
import sash.ApiException;
import sash.api.ConversationsApi;
import sash.api.MessagesApi;
import sash.api.WindowsApi;
import sash.model.*;

public final class Talk {
    public static void main(String[] arguments) throws Exception {
        var client = new ApiClient();
        client.updateBaseUri(System.getenv("SASH_URL"));
        var bearer = "Bearer " + System.getenv("SASH_API_KEY");
        client.setRequestInterceptor(request -> request.header("Authorization", bearer));
        var conversations = new ConversationsApi(client);
        var messages = new MessagesApi(client);
        var windows = new WindowsApi(client);
        var identity = "java-" + ProcessHandle.current().pid();
        Map<String, Object> told = new LinkedHashMap<>();

        var settings =
                new CreateConversation()
                        .id(identity)
                        .model("gpt-4o-mini")
                        .system("You help visitors of a conference.");
        var created =
                conversations.createConversation(
                        ConversationsApi.APICreateConversationRequest.newBuilder().createConversation(settings).build());
        told.put("created", created.getVersion());

        var question =
                new UserMessage().role(UserRole.USER).content("Is there a talk about Gradle?");
        var document = new Document().id("s-12").text("Faster builds. Room 2, 14:00.");
        var call =
                new FunctionToolCall()
                        .type(FunctionToolCall.TypeEnum.FUNCTION)
                        .id("call-1")
                        .function(new FunctionCall().name("find_talks").arguments("{\"topic\": \"gradle\"}"));
        var asks =
                new AssistantMessage().role(AssistantRole.ASSISTANT).addToolCallsItem(new ToolCall(call));
        var result =
                new ToolMessage().role(ToolRole.TOOL).toolCallId("call-1").content("Faster builds, 14:00");
        var entries =
                List.of(
                        new SentMessage(
                                entry("m-1", new ChatMessage(question))
                                        .grounding(new Grounding().addDocumentsItem(document))),
                        new SentMessage(entry("m-2", new ChatMessage(asks))),
                        new SentMessage(entry("m-3", new ChatMessage(result))));
        var appended =
                messages.appendMessages(
                        MessagesApi.APIAppendMessagesRequest.newBuilder()
                                .conversationId(identity)
                                .appendMessages(new AppendMessages().messages(entries))
                                .build());
        told.put("appended", appended.getMessages().stream().map(AppendedMessage::getSeq).toList());

        var wanted = WindowsApi.APIGetWindowRequest.newBuilder().conversationId(identity);
        var window = windows.getWindow(wanted.explain(true).build());
        told.put("total", window.getTokens().getTotal());
        told.put("roles", rolesOf(window));

        // A turn of Claude's with a tool, in Claude's own form.
        var claudes = identity + "-claude";
        var use =
                Map.of(
                        "type", "tool_use", "id", "toolu_1", "name", "find_talks", "input", Map.of("topic", "gradle"));
        var used = Map.of("type", "tool_result", "tool_use_id", "toolu_1", "content", "Faster builds, 14:00");
        var turn =
                new AppendMessages()
                        .addMessagesItem(claude("user", "Is there a talk about Gradle?"))
                        .addMessagesItem(claude("assistant", List.of(use)))
                        .addMessagesItem(claude("user", List.of(used)));
        messages.appendMessages(
                MessagesApi.APIAppendMessagesRequest.newBuilder()
                        .conversationId(claudes)
                        .format("anthropic")
                        .appendMessages(turn)
                        .build());
        var claudesWindow =
                WindowsApi.APIGetWindowRequest.newBuilder()
                        .conversationId(claudes)
                        .format("anthropic")
                        .model("claude-sonnet-4-5");
        told.put("claude", rolesOf(windows.getWindow(claudesWindow.build())));

        try {
            windows.getWindow(wanted.model("gtp-4o-mini").build());
            throw new AssertionError("an unknown model was known");
        } catch (ApiException refused) {
            told.put("status", refused.getCode());
            var problem = client.getObjectMapper().readValue(refused.getResponseBody(), Problem.class);
            told.put("near", problem.getNear().contains("gpt-4o-mini"));
        }

        var page =
                messages.listMessages(
                        MessagesApi.APIListMessagesRequest.newBuilder()
                                .conversationId(identity)
                                .order("desc")
                                .limit(2)
                                .build());
        told.put("page", page.getMessages().stream().map(StoredMessage::getSeq).toList());
        told.put("more", page.getNextCursor() != null);
        var erased =
                conversations.deleteConversationWithHttpInfo(
                        ConversationsApi.APIDeleteConversationRequest.newBuilder().conversationId(identity).build());
        told.put("erased", erased.getStatusCode());
        System.out.println(client.getObjectMapper().writeValueAsString(told));
    }
    private static Entry entry(String id, ChatMessage message) {
        return new Entry().id(id).message(new Message(message));
    }

    private static SentMessage claude(String role, Object content) {
        return new SentMessage(new ProviderMessage().role(role).content(content));
    }

    private static List<String> rolesOf(Window window) {
        List<String> roles = new ArrayList<>();
        for (var each : (List<?>) window.getRequest().get("messages")) {
            var message = (Map<?, ?>) each;
            var call = message.get("tool_call_id");
            roles.add(message.get("role") + (call == null ? "" : " " + call));
        }
        return roles;
    }
}
