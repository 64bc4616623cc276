package clients

import (
	"errors"
	"io"
	"net/http"
	"testing"

	sashabaranov "github.com/sashabaranov/go-openai"
)

func TestGoOpenAI(t *testing.T) {
	ctx := needServer(t)
	cfg := sashabaranov.DefaultConfig("any")
	cfg.BaseURL = base + "/v1"
	client := sashabaranov.NewClientWithConfig(cfg)

	t.Run("completion", func(t *testing.T) {
		want := expected(t, prompt, 24)
		req := sashabaranov.CompletionRequest{Model: "tl", Prompt: prompt, MaxTokens: 24, Temperature: 0.0001, Seed: new(int), TopP: 0.0001}
		res, err := client.CreateCompletion(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "whole", res.Choices[0].Text, want)
		stream, err := client.CreateCompletionStream(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		text := ""
		for {
			c, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Choices) > 0 {
				text += c.Choices[0].Text
			}
		}
		same(t, "streamed", text, want)
	})

	t.Run("chat", func(t *testing.T) {
		seed := 7
		req := sashabaranov.ChatCompletionRequest{Model: "tl", MaxTokens: 24, Temperature: 1, Seed: &seed,
			Messages: []sashabaranov.ChatCompletionMessage{{Role: "user", Content: "Tell me a story."}}}
		res, err := client.CreateChatCompletion(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := client.CreateChatCompletionStream(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		text, finish := "", ""
		for {
			c, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text += c.Choices[0].Delta.Content
			finish += string(c.Choices[0].FinishReason)
		}
		same(t, "streamed", text, res.Choices[0].Message.Content)
		same(t, "finish", finish, string(res.Choices[0].FinishReason))
	})

	t.Run("error", func(t *testing.T) {
		_, err := client.CreateChatCompletion(ctx, sashabaranov.ChatCompletionRequest{Model: "nope",
			Messages: []sashabaranov.ChatCompletionMessage{{Role: "user", Content: "Hi"}}})
		var e *sashabaranov.APIError
		if !errors.As(err, &e) || e.HTTPStatusCode != http.StatusNotFound || e.Message == "" {
			t.Errorf("error %v", err)
		}
	})
}
