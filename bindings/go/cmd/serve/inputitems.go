// Input items of stored responses, and the cancellation of responses.
package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// listed returns items as /v1/responses/ID/input_items lists them, each with an id, and their size in bytes.
func (i items) listed() (all []any, bytes int, err error) {
	prefixes := map[string]string{"function_call": "fc_", "custom_tool_call": "ctc_", "reasoning": "rs_", "function_call_output": "fco_"}
	for _, one := range i {
		listed := map[string]any{}
		if one.raw == nil {
			listed["role"], listed["content"] = one.Role, one.Content[0].Text
		} else if err := json.Unmarshal(one.raw, &listed); err != nil {
			return nil, 0, err
		}
		kind, _ := listed["type"].(string)
		if kind == "" {
			kind = "message"
		}
		listed["type"] = kind
		if id, _ := listed["id"].(string); id == "" {
			prefix := prefixes[kind]
			if prefix == "" {
				prefix = "msg_"
			}
			listed["id"] = newID(prefix)
		}
		if kind == "message" {
			part := "input_text"
			if listed["role"] == "assistant" {
				part = "output_text"
			}
			if text, is := listed["content"].(string); is {
				listed["content"] = []any{map[string]any{"type": part, "text": text}}
			}
			listed["status"] = "completed"
		}
		text, err := marshal(listed)
		if err != nil {
			return nil, 0, err
		}
		all, bytes = append(all, listed), bytes+len(text)
	}
	return all, bytes, nil
}

// inputItems serves GET /v1/responses/ID/input_items: the items of the response's own input, the last first.
func (s *server) inputItems(w http.ResponseWriter, r *http.Request) error {
	stored, found := s.stored.get(r.PathValue("id"))
	if !found {
		return noResponse(http.StatusNotFound, r.PathValue("id"))
	}
	query, limit := r.URL.Query(), 20
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return refuse("limit", "limit is %q; it must be an integer from 1 to 100", text)
		}
		limit = n
	}
	all := slices.Clone(stored.input)
	switch order := query.Get("order"); order {
	case "asc":
	case "", "desc":
		slices.Reverse(all)
	default:
		return refuse("order", "order is %q; it must be \"asc\" or \"desc\"", order)
	}
	if after := query.Get("after"); after != "" {
		at := slices.IndexFunc(all, func(one any) bool { return one.(map[string]any)["id"] == after })
		if at < 0 {
			return refuse("after", "after is %q; it must be the id of an input item of the response", after)
		}
		all = all[at+1:]
	}
	more := len(all) > limit
	all = all[:min(limit, len(all))]
	answer := map[string]any{"object": "list", "data": all, "has_more": more, "first_id": nil, "last_id": nil}
	if len(all) > 0 {
		answer["first_id"], answer["last_id"] = all[0].(map[string]any)["id"], all[len(all)-1].(map[string]any)["id"]
	} else {
		answer["data"] = []any{}
	}
	return writeJSON(w, answer)
}

// cancelResponse serves POST /v1/responses/ID/cancel. Only background responses can be canceled, and the service has
// none: a client cancels its response by closing the connection.
func (s *server) cancelResponse(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if _, found := s.stored.get(id); !found {
		return noResponse(http.StatusNotFound, id)
	}
	return refuse("", "Cannot cancel a synchronous response.")
}
