// Output of OpenAI's responses: a whole response, or a stream of typed events.
package main

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"realizar.dev/go"
)

// responses serves POST /v1/responses.
func (s *server) responses(w http.ResponseWriter, r *http.Request) error {
	request, messages, err := s.readResponse(w, r)
	if err != nil {
		return err
	}
	asked, err := request.generation(messages)
	if err != nil {
		return err
	}
	model, err := s.leaseFor(r, request.Model, request.wish, asked)
	if err != nil {
		return err
	}
	defer model.release()
	reply := &responseReply{
		lease: model, request: request, id: newID("resp_"), created: time.Now().Unix(), status: "in_progress", output: []any{},
		said: message{Role: "assistant"},
	}
	if request.Stream {
		reply.out = newStream(w)
	}
	for event, err := range model.generate(r.Context(), asked) {
		if err == nil && event.Sign == waiting && reply.out != nil {
			err = reply.out.comment()
		} else if err == nil {
			err = reply.add(&event)
		}
		if err != nil {
			return reply.fail(err)
		}
	}
	object := reply.object()
	if request.Store == nil || *request.Store {
		body, err := marshal(object)
		if err != nil {
			return err
		}
		if reply.said.Content == nil && reply.said.ToolCalls == nil {
			reply.said.Content = ""
		}
		response := &storedResponse{body: body, messages: append(slices.Clip(messages), reply.said)}
		if response.input, response.listed, err = request.Input.listed(); err != nil {
			return err
		}
		if err := s.store(reply.id, response, reply.output); err != nil {
			return err
		}
	}
	if request.Stream {
		reply.tell("response."+reply.status, map[string]any{"response": object})
		return reply.err
	}
	return writeJSON(w, object)
}

// responseReply builds a response, and sends each event if the response is streamed.
type responseReply struct {
	lease   *lease
	request *responseRequest
	out     *stream // nil: it is not streamed
	err     error   // the first error; afterwards nothing is sent
	number  int     // number of the next event
	id      string
	created int64
	status  string
	failure any // the "error" of the response
	outcome outcome
	output  []any
	said    message // the whole reply as a message

	open     map[string]any // the last item while it is open
	kind     string         // its kind in itemForms
	called   *origin        // the tool that it calls
	text     strings.Builder
	logprobs []any // log-probabilities of the tokens of its text
}

func (p *responseReply) tell(name string, value map[string]any) {
	if p.out == nil || p.err != nil {
		return
	}
	value["type"], value["sequence_number"] = name, p.number
	p.number++
	p.err = p.out.send(name, value)
}

// ofItem returns an event of the last item.
func (p *responseReply) ofItem(event map[string]any) map[string]any {
	event["output_index"], event["item_id"] = len(p.output)-1, p.open["id"]
	if p.kind != "function_call" {
		event["content_index"] = 0
	}
	return event
}

// itemForms are, for each kind of part, the type of the item, the prefix of its id, and the name of its text events. A
// call of a custom tool has its own type and names.
var itemForms = map[realizar.PartKind][3]string{
	realizar.PartContent:       {"message", "msg_", "response.output_text"},
	realizar.PartReasoning:     {"reasoning", "rs_", "response.reasoning_text"},
	realizar.PartToolName:      {"function_call", "fc_", "response.function_call_arguments"},
	realizar.PartToolArguments: {"function_call", "fc_", "response.function_call_arguments"},
}

func (p *responseReply) add(event *event) error {
	if p.out != nil && !p.out.begun {
		for _, name := range []string{"response.created", "response.in_progress"} {
			p.tell(name, map[string]any{"response": p.object()})
		}
	}
	rows, err := p.lease.logprobs(event.Logprobs, p.request.TopLogprobs)
	if p.err = cmp.Or(p.err, err); p.err != nil {
		return p.err
	}
	form, known := itemForms[event.Kind]
	if known && (event.Text != "" || event.Kind == realizar.PartToolName) {
		if p.open == nil || p.kind != form[0] || event.Kind == realizar.PartToolName {
			p.begin(form, event.Part)
		}
		p.logprobs = append(p.logprobs, rows...)
		if event.Kind != realizar.PartToolName {
			p.text.WriteString(event.Text)
			if p.kind == "function_call" && p.called.custom { // part.Text is a piece of JSON; the input is sent when the call ends
				return p.err
			}
			delta := p.ofItem(map[string]any{"delta": event.Text})
			if event.Kind == realizar.PartContent {
				delta["logprobs"] = rows
			}
			p.tell(form[2]+".delta", delta)
		}
	} else if p.open != nil && p.kind == "message" {
		p.logprobs = append(p.logprobs, rows...)
	}
	if event.Outcome == nil {
		return p.err
	}
	p.outcome, p.status = *event.Outcome, "completed"
	if event.Outcome.finish() == "length" {
		p.status = "incomplete"
	}
	p.end(p.status)
	return p.err
}

// part returns the content part of the last item.
func (p *responseReply) part() map[string]any {
	if p.kind == "reasoning" {
		return map[string]any{"type": "reasoning_text", "text": p.text.String()}
	}
	return map[string]any{"type": "output_text", "text": p.text.String(), "annotations": []any{}, "logprobs": p.logprobs}
}

// begin ends the last item and begins another one.
func (p *responseReply) begin(form [3]string, part realizar.Part) {
	p.end("completed")
	p.text.Reset()
	p.logprobs = []any{}
	p.kind, p.open = form[0], map[string]any{"type": form[0], "id": newID(form[1]), "status": "in_progress"}
	switch form[0] {
	case "message":
		p.open["role"], p.open["content"] = "assistant", []any{}
	case "reasoning":
		p.open["summary"], p.open["content"] = []any{}, []any{}
	case "function_call":
		p.called = p.request.tools.origin(part.Text)
		p.open["call_id"], p.open["name"] = newID("call_"), p.called.name
		if p.called.namespace != "" {
			p.open["namespace"] = p.called.namespace
		}
		if p.called.custom {
			p.open["type"], p.open["id"], p.open["input"] = "custom_tool_call", newID("ctc_"), ""
			delete(p.open, "status")
		} else {
			p.open["arguments"] = ""
		}
	}
	p.output = append(p.output, p.open)
	p.tell("response.output_item.added", map[string]any{"output_index": len(p.output) - 1, "item": p.open})
	if form[0] != "function_call" {
		p.tell("response.content_part.added", p.ofItem(map[string]any{"part": p.part()}))
	}
}

// end ends the last item.
func (p *responseReply) end(status string) {
	if p.open == nil {
		return
	}
	if p.kind == "function_call" {
		p.endCall(status)
		return
	}
	item, text := p.open, p.text.String()
	done := p.ofItem(map[string]any{"text": text})
	form := itemForms[realizar.PartContent]
	if p.kind == "message" {
		before, _ := p.said.Content.(string)
		p.said.Content = before + text
		done["logprobs"] = p.logprobs
	} else {
		form = itemForms[realizar.PartReasoning]
		p.said.ReasoningContent += text
	}
	p.tell(form[2]+".done", done)
	item["content"] = []any{p.part()}
	p.tell("response.content_part.done", p.ofItem(map[string]any{"part": p.part()}))
	item["status"] = status
	p.close()
}

// endCall ends a tool call.
func (p *responseReply) endCall(status string) {
	item, text := p.open, p.text.String()
	p.said.ToolCalls = append(p.said.ToolCalls, toolCall{item["call_id"].(string), "function", function{p.called.function(), wholeArguments(text)}})
	if p.called.custom {
		input := inputOf(text)
		item["input"] = input
		p.tell("response.custom_tool_call_input.delta", p.ofItem(map[string]any{"delta": input}))
		p.tell("response.custom_tool_call_input.done", p.ofItem(map[string]any{"input": input}))
	} else {
		item["arguments"], item["status"] = text, status
		p.tell("response.function_call_arguments.done", p.ofItem(map[string]any{"arguments": text, "name": item["name"]}))
	}
	p.close()
}

// close sends the events that end the last item.
func (p *responseReply) close() {
	item := p.open
	p.open = nil
	p.tell("response.output_item.done", map[string]any{"output_index": len(p.output) - 1, "item": item})
}

// fail ends the response with an error. If nothing has been sent, the error becomes the answer.
func (p *responseReply) fail(err error) error {
	if p.out == nil || !p.out.begun {
		return err
	}
	e := asAPIError(err)
	p.status, p.failure, p.err = "failed", map[string]any{"code": "server_error", "message": e.message}, nil
	if p.tell("response.failed", map[string]any{"response": p.object()}); p.err != nil {
		return p.err
	}
	return &toldError{e}
}

// object returns the response in its present state.
func (p *responseReply) object() map[string]any {
	q := p.request
	object := map[string]any{
		"id": p.id, "object": "response", "created_at": p.created, "status": p.status, "model": q.Model, "error": p.failure,
		"incomplete_details": nil, "instructions": q.Instructions, "max_output_tokens": q.MaxOutputTokens, "output": slices.Clone(p.output),
		"parallel_tool_calls": q.Parallel == nil || *q.Parallel, "previous_response_id": orNull(q.Previous), "reasoning": responseEffort{},
		"store": q.Store == nil || *q.Store, "temperature": q.Temperature, "text": map[string]any{"format": textFormat{Type: "text"}},
		"tool_choice": "auto", "tools": []any{}, "top_p": q.TopP, "truncation": "disabled", "metadata": map[string]string{},
		"background": false,
	}
	if len(q.Tools) > 0 {
		object["tools"] = q.Tools
	}
	if len(q.ToolChoice) > 0 {
		object["tool_choice"] = q.ToolChoice
	}
	if len(q.Metadata) > 0 {
		object["metadata"] = q.Metadata
	}
	if q.Reasoning != nil {
		object["reasoning"] = q.Reasoning
	}
	if q.Text.Format != nil {
		object["text"] = map[string]any{"format": q.Text.Format}
	}
	switch p.status {
	case "incomplete":
		object["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
		fallthrough
	case "completed":
		o := &p.outcome
		object["usage"] = map[string]any{
			"input_tokens": o.Prompt, "input_tokens_details": map[string]any{"cached_tokens": o.Cached, "cache_write_tokens": 0},
			"output_tokens": o.Completion, "output_tokens_details": map[string]any{"reasoning_tokens": o.Reasoning},
			"total_tokens": o.Prompt + o.Completion,
		}
	}
	return object
}
