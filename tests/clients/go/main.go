// One conversation through the generated client: created, appended to, read as a window and as a page, erased.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"talk/sash"
)

func entry(id string, message sash.ChatMessage) *sash.Entry {
	wrapped := sash.NewEntry(sash.Message{ChatMessage: &message})
	wrapped.SetId(id)
	return wrapped
}

// A message of Claude's, with its blocks as they are.
func claudes(role string, content interface{}) sash.SentMessage {
	message := sash.NewProviderMessage()
	message.SetRole(role)
	message.SetContent(content)
	return sash.SentMessage{ProviderMessage: message}
}

func rolesOf(window *sash.Window) []string {
	roles := []string{}
	for _, each := range window.Request["messages"].([]interface{}) {
		message := each.(map[string]interface{})
		role := message["role"].(string)
		if call, isResult := message["tool_call_id"].(string); isResult {
			role += " " + call
		}
		roles = append(roles, role)
	}
	return roles
}

func main() {
	configuration := sash.NewConfiguration()
	configuration.Servers = sash.ServerConfigurations{{URL: os.Getenv("SASH_URL")}}
	client := sash.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), sash.ContextAccessToken, os.Getenv("SASH_API_KEY"))
	identity := fmt.Sprintf("go-%d", os.Getpid())

	settings := sash.NewCreateConversation()
	settings.SetId(identity)
	settings.SetModel("gpt-4o-mini")
	settings.SetSystem("You help visitors of a conference.")
	created, _, err := client.ConversationsAPI.CreateConversation(ctx).CreateConversation(*settings).Execute()
	check(err)

	document := sash.NewDocument()
	document.SetText("Faster builds. Room 2, 14:00.")
	document.SetId("s-12")
	question := entry("m-1", sash.UserMessageAsChatMessage(sash.NewUserMessage("user", "Is there a talk about Gradle?")))
	question.SetGrounding(*sash.NewGrounding([]sash.Document{*document}))
	call := sash.NewFunctionToolCall("function", "call-1", *sash.NewFunctionCall("find_talks", `{"topic": "gradle"}`))
	assistant := sash.NewAssistantMessage("assistant")
	assistant.SetToolCalls([]sash.ToolCall{sash.FunctionToolCallAsToolCall(call)})
	asks := entry("m-2", sash.AssistantMessageAsChatMessage(assistant))
	result := entry("m-3", sash.ToolMessageAsChatMessage(sash.NewToolMessage("tool", "call-1", "Faster builds, 14:00")))
	body := sash.NewAppendMessages([]sash.SentMessage{{Entry: question}, {Entry: asks}, {Entry: result}})
	appended, _, err := client.MessagesAPI.AppendMessages(ctx, identity).AppendMessages(*body).Execute()
	check(err)
	seqs := []int64{}
	for _, message := range appended.Messages {
		seqs = append(seqs, message.Seq)
	}

	window, _, err := client.WindowsAPI.GetWindow(ctx, identity).Explain(true).Execute()
	check(err)

	// A turn of Claude's with a tool, in Claude's own form.
	type object = map[string]interface{}
	use := object{"type": "tool_use", "id": "toolu_1", "name": "find_talks", "input": object{"topic": "gradle"}}
	used := object{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Faster builds, 14:00"}
	turn := sash.NewAppendMessages([]sash.SentMessage{
		claudes("user", "Is there a talk about Gradle?"),
		claudes("assistant", []interface{}{use}),
		claudes("user", []interface{}{used}),
	})
	other := identity + "-claude"
	_, _, err = client.MessagesAPI.AppendMessages(ctx, other).Format("anthropic").AppendMessages(*turn).Execute()
	check(err)
	claude, _, err := client.WindowsAPI.GetWindow(ctx, other).Format("anthropic").Model("claude-sonnet-4-5").Execute()
	check(err)
	_, refused, err := client.WindowsAPI.GetWindow(ctx, identity).Model("gtp-4o-mini").Execute()
	var failure *sash.GenericOpenAPIError
	if !errors.As(err, &failure) {
		log.Fatal("an unknown model was known")
	}
	problem := failure.Model().(sash.Problem)
	near := false
	for _, name := range problem.Near {
		near = near || name == "gpt-4o-mini"
	}

	page, _, err := client.MessagesAPI.ListMessages(ctx, identity).Order("desc").Limit(2).Execute()
	check(err)
	places := []int64{}
	for _, message := range page.Messages {
		places = append(places, message.Seq)
	}
	erased, err := client.ConversationsAPI.DeleteConversation(ctx, identity).Execute()
	check(err)

	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"created":  created.Version,
		"appended": seqs,
		"total":    window.Tokens.Total,
		"roles":    rolesOf(window),
		"claude":   rolesOf(claude),
		"status":   refused.StatusCode,
		"near":     near,
		"page":     places,
		"more":     page.NextCursor.IsSet() && page.NextCursor.Get() != nil,
		"erased":   erased.StatusCode,
	}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
