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

func text(value string) *string { return &value }

func user(content string) sash.ChatMessage {
	said := sash.StringAsUserContent(text(content))
	return sash.UserMessageAsChatMessage(sash.NewUserMessage("user", said))
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
	question := sash.NewEntry(user("Is there a talk about Gradle?"))
	question.SetId("m-1")
	question.SetGrounding(*sash.NewGrounding([]sash.Document{*document}))
	call := sash.NewFunctionToolCall("function", "call-1", *sash.NewFunctionCall("find_talks", `{"topic": "gradle"}`))
	assistant := sash.NewAssistantMessage("assistant")
	assistant.SetToolCalls([]sash.ToolCall{sash.FunctionToolCallAsToolCall(call)})
	asks := sash.NewEntry(sash.AssistantMessageAsChatMessage(assistant))
	tool := sash.NewToolMessage("tool", "call-1", sash.StringAsUserContent(text("Faster builds, 14:00")))
	result := sash.NewEntry(sash.ToolMessageAsChatMessage(tool))
	body := sash.NewAppendMessages([]sash.Entry{*question, *asks, *result})
	appended, _, err := client.MessagesAPI.AppendMessages(ctx, identity).AppendMessages(*body).Execute()
	check(err)
	seqs := []int64{}
	for _, message := range appended.Messages {
		seqs = append(seqs, message.Seq)
	}

	answer, _, err := client.WindowsAPI.GetWindow(ctx, identity).Explain(true).Execute()
	check(err)
	window := answer.OpenAIWindow
	roles := []string{}
	for _, message := range window.Request.Messages {
		// the discriminator has chosen the type
		switch said := message.GetActualInstance().(type) {
		case *sash.SystemMessage:
			roles = append(roles, said.Role)
		case *sash.UserMessage:
			roles = append(roles, said.Role)
		case *sash.AssistantMessage:
			roles = append(roles, said.Role)
		case *sash.ToolMessage:
			roles = append(roles, said.Role+" "+said.ToolCallId)
		}
	}

	_, refused, err := client.WindowsAPI.GetWindow(ctx, identity).Model("gtp-4o-mini").Execute()
	var failure *sash.GenericOpenAPIError
	if !errors.As(err, &failure) {
		log.Fatal("an unknown model was known")
	}
	problem := failure.Model().(sash.Problem422).UnknownModelProblem
	near := false
	for _, name := range problem.Near {
		near = near || name == "gpt-4o-mini"
	}

	page, _, err := client.MessagesAPI.ListMessages(ctx, identity).Order(sash.ORDER_DESC).Limit(2).Execute()
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
		"roles":    roles,
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
