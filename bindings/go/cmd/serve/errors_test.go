package main

import (
	"testing"
)

// Errors name the field of the request, its value and the condition.
func TestErrorsNameTheField(t *testing.T) {
	s := serve(t)
	const chat, text = `"messages": [{"role": "user", "content": "x"}], "max_tokens": 5`, `"prompt": "x"`
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `"messages": []`, "messages is missing or empty; it must have a message"},
		{"/v1/chat/completions", `"messages": 5`, "messages is a number; it must be a list"},
		{"/v1/chat/completions", chat + `, "temperature": 3`, "temperature is 3; it must be from 0 to 2"},
		{"/v1/chat/completions", chat + `, "temperature": "hot"`, "temperature is a string; it must be a number"},
		{"/v1/chat/completions", chat + `, "top_k": -2`, "top_k is -2; it must be -1 or from 0 to 2147483647"},
		{"/v1/chat/completions", chat + `, "n": 99`, "n is 99; it must be at most 16"},
		{"/v1/chat/completions", chat + `, "n": 0`, "n is 0; it must be at least 1"},
		{"/v1/chat/completions", chat + `, "top_logprobs": 30, "logprobs": true`, "top_logprobs is 30; it must be from 0 to 20, and logprobs must be true"},
		{"/v1/chat/completions", chat + `, "stop": [""]`, "stop has a text that is empty or contains a NUL character"},
		{"/v1/chat/completions", chat + `, "logit_bias": {"x": 1}`, `logit_bias has the key "x"; it must be a token id less than 512`},
		{"/v1/chat/completions", chat + `, "logit_bias": {"5": 101}`, "logit_bias[5] is 101; it must be from -100 to 100"},
		{"/v1/chat/completions", chat + `, "reasoning_effort": "much"`, `reasoning_effort is "much"; it must be one of none, minimal, low, medium, high, xhigh, max`},
		{"/v1/chat/completions", chat + `, "response_format": {"type": "xml"}`, `response_format.type is "xml"; it must be "text", "json_object" or "json_schema"`},
		{"/v1/chat/completions", chat + `, "tool_choice": "some"`, `tool_choice is "some"; it must be "auto", "none", "required", or an object that names a tool`},
		{"/v1/chat/completions", `"messages": [{"role": "robot", "content": "x"}]`, `messages[0].role is "robot"; it must be "system", "developer", "user", "assistant" or "tool"`},
		{"/v1/chat/completions", `"messages": [{"role": "user"}]`, "messages[0].content is missing; it must be a text or a list of parts"},
		{"/v1/chat/completions", `"messages": [{"role": "user", "content": [{"type": "smell"}]}]`, `messages[0].content[0].type is "smell"; it must be "text", "image_url", "input_audio" or "file"`},
		{"/v1/chat/completions", `"messages": [{"role": "tool", "content": "x"}]`, "messages[0].tool_call_id is missing; it must be the id of a tool call"},
		{"/v1/completions", text + `, "logprobs": 21`, "logprobs is 21; it must be from 0 to 20"},
		{"/v1/completions", text + `, "best_of": 3`, "best_of is 3; it must equal n, 1"},
		{"/v1/completions", `"prompt": {"x": 1}`, `prompt is {"x": 1}; it must be a text, a list of texts, a list of tokens or a list of such lists`},
		{"/v1/completions", `"prompt": ["x", null]`, "prompt has a null; it must be a text, a list of texts, a list of tokens or a list of such lists"},
		{"/v1/embeddings", `"input": 5`, "input is 5; it must be a text, a list of texts, a list of tokens or a list of such lists"},
		{"/v1//completions", `"prompt": []`, "prompt has 0 prompts; it must have from 1 to 1024"},
		{"/v1/completions", `"prompt": []`, "prompt has 0 prompts; it must have from 1 to 1024"},
		{"/v1/chat/completions", chat + `, "reasoning_effort": "low"`, `reasoning_effort is "low", but the model "plain" has no reasoning; it must be "none" or missing`},
		{"/v1/responses", `"input": "x", "reasoning": {"effort": "max"}`, `reasoning.effort is "max", but the model "plain" has no reasoning; it must be "none" or missing`},
		{"/v1/chat/completions", chat + `, "temperature": 1e39`, "temperature is a number 1e39; it must be a number within its range"},
		{"/v1/chat/completions", chat + `, "max_tokens": [], "stop": "x"`, "max_tokens is an array; it must be an integer within its range"},
		{"/v1/embeddings", `"input": "x"`, `pooling is missing, and the model "plain" has none of its own; it must be "mean", "cls" or "last"`},
		{"/rerank", `"query": "x", "documents": ["y"]`, `the model "plain" has neither a classifier nor a pooling of its own; rerank needs a reranker or an embedding model`},
		{"/v1/embeddings", `"input": "x", "pooling": "max"`, `pooling is "max"; it must be "mean", "cls" or "last"`},
		{"/v1/embeddings", `"input": "x", "pooling": "mean", "dimensions": 1000`, "dimensions is 1000; it must be from 1 to 64, the dimensions of the model"},
		{"/v1/responses", `"input": "x", "top_logprobs": 21`, "top_logprobs is 21; it must be from 0 to 20"},
		{"/v1/responses", `"input": "x", "previous_response_id": "resp_1"`, `Response with id "resp_1" not found.`},
		{"/v1/messages", `"messages": [{"role": "user", "content": "x"}]`, "max_tokens is missing; it must be at least 1"},
		{"/v1/messages", chat + `, "thinking": {"type": "enabled", "budget_tokens": 5}`, "thinking.budget_tokens is 5; it must be at least 1 and less than max_tokens"},
		{"/v1/messages", chat + `, "tool_choice": {"type": "some"}`, `tool_choice.type is "some"; it must be "auto", "any", "tool" or "none"`},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "robot", "content": "x"}]`, `messages.0.role is "robot"; it must be "user", "assistant" or "system"`},
		{"/rerank", `"documents": ["y"]`, "query is missing; it must be a text"},
	} {
		_, answer, _ := s.post(t, c.path, `{"model": "plain", `+c.body+`}`)
		if said := at(answer, "error", "message"); said != c.want {
			t.Errorf("%s %s:\n%v\n%v", c.path, c.body, said, c.want)
		}
	}
}

// Errors that the library finds have the field, too.
func TestErrorsOfTheLibraryHaveTheField(t *testing.T) {
	s := serve(t)
	for _, c := range []struct{ path, body, param, want string }{
		{
			"/v1/chat/completions", `"model": "plain", "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "a b"}}]`,
			"tools[0].function.name", `tools[0].function.name is "a b", which is no name of a tool`,
		},
		{"/v1/embeddings", `"model": "plain", "pooling": "mean", "input": [[5], []]`, "input", "input[1] is empty; it must have a token"},
		{"/v1/completions", `"model": "plain", "prompt": 5`, "prompt", "prompt is 5; it must be a text, a list of texts, a list of tokens or a list of such lists"},
		{"/v1/embeddings", `"model": "plain", "input": [null]`, "input", "input has a null; it must be a text, a list of texts, a list of tokens or a list of such lists"},
	} {
		if status, answer, _ := s.post(t, c.path, `{`+c.body+`}`); status != 400 || at(answer, "error", "param") != c.param || at(answer, "error", "message") != c.want {
			t.Error(status, answer, c)
		}
	}
}
