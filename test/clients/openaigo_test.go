package clients

import (
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
