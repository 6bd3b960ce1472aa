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
                new UserMessage().role(UserMessage.RoleEnum.USER).content("Is there a talk about Gradle?");
        var document = new Document().id("s-12").text("Faster builds. Room 2, 14:00.");
        var call =
                new FunctionToolCall()
                        .type(FunctionToolCall.TypeEnum.FUNCTION)
                        .id("call-1")
                        .function(new FunctionCall().name("find_talks").arguments("{\"topic\": \"gradle\"}"));
        var asks =
                new AssistantMessage().role(AssistantMessage.RoleEnum.ASSISTANT).addToolCallsItem(new ToolCall(call));
        var result =
                new ToolMessage().role(ToolMessage.RoleEnum.TOOL).toolCallId("call-1").content("Faster builds, 14:00");
        var entries =
                List.of(
                        new Entry()
                                .id("m-1")
                                .message(new ChatMessage(question))
                                .grounding(new Grounding().addDocumentsItem(document)),
                        new Entry().id("m-2").message(new ChatMessage(asks)),
                        new Entry().id("m-3").message(new ChatMessage(result)));
        var appended =
                messages.appendMessages(
                        MessagesApi.APIAppendMessagesRequest.newBuilder()
                                .conversationId(identity)
                                .appendMessages(new AppendMessages().messages(entries))
                                .build());
        told.put("appended", appended.getMessages().stream().map(AppendedMessage::getSeq).toList());

        var wanted = WindowsApi.APIGetWindowRequest.newBuilder().conversationId(identity);
        var window = windows.getWindow(wanted.explain(true).build()).getOpenAIWindow();
        told.put("total", window.getTokens().getTotal());
        List<String> roles = new ArrayList<>();
        for (ChatMessage message : window.getRequest().getMessages()) {
            // the discriminator has chosen the class
            if (message.getActualInstance() instanceof SystemMessage said) roles.add(said.getRole().getValue());
            if (message.getActualInstance() instanceof UserMessage said) roles.add(said.getRole().getValue());
            if (message.getActualInstance() instanceof AssistantMessage said) roles.add(said.getRole().getValue());
            if (message.getActualInstance() instanceof ToolMessage said)
                roles.add(said.getRole().getValue() + " " + said.getToolCallId());
        }
        told.put("roles", roles);

        try {
            windows.getWindow(wanted.model("gtp-4o-mini").build());
            throw new AssertionError("an unknown model was known");
        } catch (ApiException refused) {
            told.put("status", refused.getCode());
            var problem = client.getObjectMapper().readValue(refused.getResponseBody(), Problem422.class);
            told.put("near", problem.getUnknownModelProblem().getNear().contains("gpt-4o-mini"));
        }

        var page =
                messages.listMessages(
                        MessagesApi.APIListMessagesRequest.newBuilder()
                                .conversationId(identity)
                                .order(Order.DESC)
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
}
