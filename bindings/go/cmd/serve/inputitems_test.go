package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestInputItemsAreListed(t *testing.T) {
	s := serve(t)
	first := s.ask(t, "/v1/responses", `{"model": "plain", "max_output_tokens": 3, "input": "Hello"}`)
	status, list := s.get(t, "/v1/responses/"+first["id"].(string)+"/input_items")
	item := at(list, "data", 0)
	if status != 200 || list["object"] != "list" || len(list["data"].([]any)) != 1 || at(item, "role") != "user" || at(item, "type") != "message" ||
		at(item, "content", 0, "text") != "Hello" || at(item, "content", 0, "type") != "input_text" || at(item, "id") != list["first_id"] || list["has_more"] != false {
		t.Error(status, list)
	}
	reference := at(first, "output", 0, "id").(string)
	second := s.ask(t, "/v1/responses", `{"model": "plain", "max_output_tokens": 3, "previous_response_id": "`+first["id"].(string)+`", "input": [
		{"role": "user", "content": [{"type": "input_text", "text": "a"}]}, {"role": "assistant", "content": "b"}, {"type": "item_reference", "id": "`+reference+`"},
		{"type": "function_call", "call_id": "c", "name": "go", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "d"}]}`)
	path := "/v1/responses/" + second["id"].(string) + "/input_items"
	_, list = s.get(t, path+"?order=asc&limit=2")
	if list["has_more"] != true || at(list, "data", 0, "content", 0, "text") != "a" || at(list, "data", 1, "content", 0, "type") != "output_text" {
		t.Error(list)
	}
	_, rest := s.get(t, path+"?order=asc&after="+list["last_id"].(string))
	if rest["has_more"] != false || len(rest["data"].([]any)) != 3 || at(rest, "data", 0, "id") != reference || at(rest, "data", 1, "arguments") != "{}" || at(rest, "data", 2, "output") != "d" {
		t.Error(rest)
	}
	if _, list := s.get(t, path); at(list, "data", 0, "output") != "d" || len(list["data"].([]any)) != 5 {
		t.Error(list)
	}
	if _, list := s.get(t, path+"?after="+at(list, "data", 0, "id").(string)); len(list["data"].([]any)) != 0 || list["first_id"] != nil {
		t.Error(list)
	}
	for query, word := range map[string]string{"?limit=0": "limit", "?limit=x": "limit", "?limit=101": "limit", "?order=up": "order", "?after=x": "after"} {
		if status, answer := s.get(t, path+query); status != http.StatusBadRequest || !strings.HasPrefix(at(answer, "error", "message").(string), word+" is ") {
			t.Error(query, status, answer)
		}
	}
	if status, answer, _ := s.post(t, "/v1/responses/"+second["id"].(string)+"/cancel", ``); status != http.StatusBadRequest || at(answer, "error", "message") != "Cannot cancel a synchronous response." {
		t.Error(status, answer)
	}
	for _, path := range []string{"/v1/responses/x/input_items", "/v1/responses/x/cancel"} {
		response, err := http.Post(s.url+path, "", nil)
		if strings.HasSuffix(path, "items") {
			response, err = http.Get(s.url + path)
		}
		must(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Error(path, response.StatusCode)
		}
	}
}
