package clients

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func TestOpenAIGo(t *testing.T) {
	ctx := needServer(t)
	client := openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey("any"))

	t.Run("completion", func(t *testing.T) {
		want := expected(t, prompt, 24)
		params := openai.CompletionNewParams{Model: "tl", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)},
			MaxTokens: openai.Int(24), Temperature: openai.Float(0)}
		res, err := client.Completions.New(ctx, params)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "whole", res.Choices[0].Text, want)
		same(t, "finish", string(res.Choices[0].FinishReason), "length")
		if res.Usage.CompletionTokens != 24 || res.Usage.PromptTokens == 0 {
			t.Errorf("usage %+v", res.Usage)
		}
		stream := client.Completions.NewStreaming(ctx, params)
		text := ""
		for stream.Next() {
			if c := stream.Current(); len(c.Choices) > 0 {
				text += c.Choices[0].Text
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		same(t, "streamed", text, want)
	})

	t.Run("chat", func(t *testing.T) {
		params := openai.ChatCompletionNewParams{Model: "tl", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Tell me a story.")},
			MaxTokens: openai.Int(24), Temperature: openai.Float(0), N: openai.Int(2),
			Logprobs: openai.Bool(true), TopLogprobs: openai.Int(3)}
		res, err := client.Chat.Completions.New(ctx, params)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Choices) != 2 || res.Choices[0].Message.Content == "" || res.Choices[0].Message.Content != res.Choices[1].Message.Content {
			t.Fatalf("choices %+v", res.Choices)
		}
		if lp := res.Choices[0].Logprobs.Content; len(lp) == 0 || len(lp[0].TopLogprobs) != 3 {
			t.Errorf("logprobs %+v", lp)
		}
		params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		stream := client.Chat.Completions.NewStreaming(ctx, params)
		acc := openai.ChatCompletionAccumulator{}
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Fatalf("the accumulator refused %+v", stream.Current())
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		for i := range res.Choices {
			same(t, "streamed", acc.Choices[i].Message.Content, res.Choices[i].Message.Content)
			same(t, "finish", string(acc.Choices[i].FinishReason), string(res.Choices[i].FinishReason))
		}
		if acc.Usage.TotalTokens != res.Usage.TotalTokens {
			t.Errorf("usage streamed %+v, whole %+v", acc.Usage, res.Usage)
		}
	})

	t.Run("tools", func(t *testing.T) { toolsOpenAIGo(t, ctx, client) })
	t.Run("json", func(t *testing.T) { jsonOpenAIGo(t, ctx, client) })

	t.Run("error", func(t *testing.T) {
		_, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "tl", TopP: openai.Float(7),
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")}})
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != 422 || e.Param != "top_p" || e.Message == "" {
			t.Errorf("error %v", err)
		}
	})

	t.Run("models", func(t *testing.T) {
		page, err := client.Models.List(ctx)
		if err != nil || len(page.Data) == 0 {
			t.Fatal(err, page)
		}
		m, err := client.Models.Get(ctx, "tl")
		if err != nil || m.ID == "" {
			t.Error(err, m)
		}
	})
}

// toolsOpenAIGo lets the model call a function, whole and streamed, and gives it the result.
func toolsOpenAIGo(t *testing.T, ctx context.Context, client openai.Client) {
	params := openai.ChatCompletionNewParams{Model: "inside", Temperature: openai.Float(0), MaxTokens: openai.Int(80),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the weather in Rome?")},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "get_weather", Description: openai.String("Weather of a city"), Strict: openai.Bool(true),
			Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}, "additionalProperties": false},
		})},
		ToolChoice:        openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")},
		ParallelToolCalls: openai.Bool(false),
	}
	res, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	m := res.Choices[0].Message
	if res.Choices[0].FinishReason != "tool_calls" || len(m.ToolCalls) != 1 || m.ToolCalls[0].ID == "" || m.ToolCalls[0].Function.Name != "get_weather" {
		t.Fatalf("choice %+v", res.Choices[0])
	}
	var args struct{ City *string }
	if err := json.Unmarshal([]byte(m.ToolCalls[0].Function.Arguments), &args); err != nil || args.City == nil {
		t.Errorf("arguments %q: %v", m.ToolCalls[0].Function.Arguments, err)
	}

	stream := client.Chat.Completions.NewStreaming(ctx, params)
	acc := openai.ChatCompletionAccumulator{}
	finished := 0
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatalf("the accumulator refused %+v", stream.Current())
		}
		if c, ok := acc.JustFinishedToolCall(); ok {
			finished++
			same(t, "streamed arguments", c.Arguments, m.ToolCalls[0].Function.Arguments)
			same(t, "streamed name", c.Name, "get_weather")
		}
	}
	if err := stream.Err(); err != nil || finished != 1 || acc.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("stream: %v, %d calls, finish %s", err, finished, acc.Choices[0].FinishReason)
	}

	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	params.Messages = append(params.Messages, m.ToParam(), openai.ToolMessage(`{"sky":"sunny","degrees":14}`, m.ToolCalls[0].ID))
	res, err = client.Chat.Completions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("with the result: %s", res.Choices[0].Message.Content)
	if c := res.Choices[0]; c.FinishReason == "tool_calls" || c.Message.Content == "" {
		t.Errorf("the answer behind the result: %+v", c)
	}
}

// jsonOpenAIGo asks for an answer that obeys a schema.
func jsonOpenAIGo(t *testing.T, ctx context.Context, client openai.Client) {
	schema := map[string]any{"type": "object", "required": []string{"capital", "sure"}, "additionalProperties": false,
		"properties": map[string]any{"capital": map[string]any{"type": "string", "maxLength": 20}, "sure": map[string]any{"type": "boolean"}}}
	res, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "inside", MaxTokens: openai.Int(80),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Give the capital of Italy as JSON with the key capital.")},
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{
			JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Strict: openai.Bool(true), Schema: schema}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Capital *string
		Sure    *bool
	}
	if err := json.Unmarshal([]byte(res.Choices[0].Message.Content), &got); err != nil || got.Capital == nil || got.Sure == nil || res.Choices[0].FinishReason != "stop" {
		t.Errorf("%+v: %v", res.Choices[0], err)
	}
	_, err = client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "inside",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")},
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{
			JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: map[string]any{"type": "string", "pattern": "a+"}}}}})
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 422 || e.Param != "response_format.json_schema.schema.pattern" {
		t.Errorf("a keyword that is not served: %v", err)
	}
}
