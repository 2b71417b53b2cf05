// Items of the input of OpenAI's responses, converted to messages.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// items are the input: a list of items, or a text that means a user message.
type items []item

func (i *items) UnmarshalJSON(data []byte) error {
	err := listOrText(data, (*[]item)(i), func(text string) item {
		return item{Role: "user", Content: itemParts{{Type: "input_text", Text: text}}}
	})
	var raw []json.RawMessage
	if err == nil && json.Unmarshal(data, &raw) == nil {
		for n := range raw {
			(*i)[n].raw = raw[n]
		}
	}
	return err
}

// item is an item of any type.
type item struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Role      string    `json:"role"`
	Content   itemParts `json:"content"`
	Summary   itemParts `json:"summary"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Arguments itemText  `json:"arguments"`
	Input     string    `json:"input"`
	Output    itemParts `json:"output"`
	Tools     []rawTool `json:"tools"`

	raw json.RawMessage // the item as the request writes it; nil: it is a text
}

// itemText is a text; in items that are left out it may be anything else.
type itemText string

func (t *itemText) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	*t = itemText(text)
	return nil
}

// foreignItems are items that hosted tools of other services produce; such items in a history are left out.
var foreignItems = names("file_search_call web_search_call computer_call computer_call_output image_generation_call code_interpreter_call " +
	"local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call apply_patch_call_output mcp_list_tools " +
	"mcp_approval_request mcp_approval_response mcp_call tool_search_call compaction compaction_summary compaction_trigger " +
	"context_compaction program program_output")

// itemParts are a list, or a text that stands for one part.
type itemParts []itemPart

type itemPart struct {
	Type     string      `json:"type"`
	Text     string      `json:"text"`
	Refusal  string      `json:"refusal"`
	ImageURL urlOrObject `json:"image_url"`
	FileData string      `json:"file_data"`
	Filename string      `json:"filename"`
}

func (p *itemParts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' { // allowed only in items that are left out
		*p = itemParts{{Type: "object"}}
		return nil
	}
	return listOrText(data, (*[]itemPart)(p), func(text string) itemPart { return itemPart{Type: "input_text", Text: text} })
}

// text concatenates the texts of all parts.
func (p itemParts) text() (string, error) {
	var out strings.Builder
	for _, part := range p {
		switch part.Type {
		case "input_text", "output_text", "reasoning_text", "summary_text", "text":
			out.WriteString(part.Text)
		case "refusal":
			out.WriteString(part.Refusal)
		case "encrypted_content": // only another service can read it
			warnOnce("parts of the type %q are left out", part.Type)
		default:
			return "", fmt.Errorf("the type of a part is %.100q; it must be a supported type", part.Type)
		}
	}
	return out.String(), nil
}

// content is the content of a message: the text of all parts, or the parts if there are images among them.
func (p itemParts) content() (any, error) {
	isFile := func(part itemPart) bool { return part.Type == "input_image" || part.Type == "input_file" }
	if !slices.ContainsFunc(p, isFile) {
		return p.text()
	}
	var parts []any
	for _, part := range p {
		if !isFile(part) {
			text, err := itemParts{part}.text()
			if err != nil {
				return nil, err
			}
			parts = append(parts, textPart{"text", text})
			continue
		}
		url := part.ImageURL.URL
		if part.Type == "input_file" {
			url = part.FileData
			if text, is, err := readText(part.Filename, url); is && err == nil {
				parts = append(parts, textPart{"text", text})
				continue
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", part.Type, err)
			}
		}
		picture, err := readPicture(url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.Type, err)
		}
		parts = append(parts, picture)
	}
	return parts, nil
}

// storedItem is an item of a response that is stored.
type storedItem struct {
	item
	bytes int
}

func (s *storedItem) size() int { return s.bytes }

// store keeps a response, and each item of its output.
func (s *server) store(id string, response *storedResponse, output []any) error {
	for _, one := range output {
		text, err := marshal(one)
		if err != nil {
			return err
		}
		kept := &storedItem{bytes: 2 * len(text)}
		if err := json.Unmarshal(text, &kept.item); err != nil {
			return err
		}
		kept.raw = text
		s.items.put(kept.ID, kept)
		response.items = append(response.items, kept.ID)
	}
	s.stored.put(id, response)
	return nil
}

// resolve replaces references by the stored items.
func (s *server) resolve(all items) error {
	for i, one := range all {
		if one.Type != "item_reference" && (one.Type != "" || one.ID == "" || one.Role != "") {
			continue
		}
		stored, found := s.items.get(one.ID)
		if !found {
			return refuse("input", "input[%d] is a reference to %q; it must name an item of a stored response", i, one.ID)
		}
		all[i] = stored.item
	}
	return nil
}

// messages returns the messages before, followed by the messages of the items: consecutive reasoning, text and tool
// calls become one message. Tools in the items are added to the box.
func (i items) messages(before []message, box *toolbox) ([]message, error) {
	h := history{all: slices.Clone(before), names: map[string]string{}}
	for _, message := range h.all {
		for _, call := range message.ToolCalls {
			h.names[call.ID] = call.Function.Name
		}
	}
	for n, item := range i {
		if foreignItems[item.Type] {
			warnOnce("items of the type %q are left out", item.Type)
			continue
		}
		param := fmt.Sprintf("input[%d]", n)
		var err error
		if item.Type == "additional_tools" || item.Type == "tool_search_output" {
			err = box.add(param+".tools", "", item.Tools)
		} else {
			err = h.add(param, &item)
		}
		if err != nil {
			return nil, err
		}
	}
	return h.all, nil
}

// history has the messages of the items so far.
type history struct {
	all   []message
	names map[string]string // of tools by the ids of calls
}

// reply returns the assistant's current message if it continues, otherwise a new message.
func (h *history) reply(goesOn bool) *message {
	if n := len(h.all); n == 0 || h.all[n-1].Role != "assistant" || !goesOn && (h.all[n-1].Content != nil || h.all[n-1].ToolCalls != nil) {
		h.all = append(h.all, message{Role: "assistant"})
	}
	return &h.all[len(h.all)-1]
}

// call adds a call to the message of the assistant.
func (h *history) call(item *item, arguments string) {
	name := (&origin{namespace: item.Namespace, name: item.Name}).function()
	h.names[item.CallID] = name
	m := h.reply(true)
	m.ToolCalls = append(slices.Clip(m.ToolCalls), toolCall{item.CallID, "function", function{name, arguments}})
}

// add adds an item, with its path in the request.
func (h *history) add(param string, item *item) error {
	content, err := append(slices.Clip(item.Content), item.Output...).content()
	text, isText := content.(string)
	if err == nil && !isText && (item.Role == "assistant" || item.Type == "reasoning") {
		err = errors.New("content of the assistant has an image; it must be text")
	}
	if err != nil {
		return refuse("input", "%s: %v", param, err)
	}
	switch item.Type {
	case "", "message":
		switch item.Role {
		case "assistant":
			h.reply(false).Content = text
		case "user", "system", "developer":
			if len(item.Content) == 0 {
				return refuse("input", "%s.content is missing; it must be a text or a list of parts", param)
			}
			h.all = append(h.all, message{Role: item.Role, Content: content})
		default:
			return refuse("input", "%s is %q; it must be \"user\", \"assistant\", \"system\" or \"developer\"", param+".role", item.Role)
		}
	case "reasoning":
		if text == "" {
			if text, err = item.Summary.text(); err != nil {
				return refuse("input", "%s: %v", param, err)
			}
		}
		if text != "" { // otherwise the reasoning is encrypted, and only another service can read it
			h.reply(false).ReasoningContent += text
		}
	case "function_call":
		h.call(item, wholeArguments(string(item.Arguments)))
	case "custom_tool_call":
		h.call(item, argumentsOf(item.Input))
	case "function_call_output", "custom_tool_call_output":
		name, known := h.names[item.CallID]
		if !known {
			return refuse("input", "%s.call_id is %q; it must be the id of an earlier call", param, item.CallID)
		}
		h.all = append(h.all, message{Role: "tool", Content: content, Name: name, ToolCallID: item.CallID})
	default:
		return refuse("input", "%s.type is %q; it must be a supported type", param, item.Type)
	}
	return nil
}
