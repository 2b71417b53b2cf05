// Messages of Anthropic's API: turns of blocks, converted to messages.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// turn is a message of a request.
type turn struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

// block is a block of any type.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   blocks          `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    *blockSource    `json:"source,omitempty"`
	Title     string          `json:"title,omitempty"`   // of a document or a result of a search
	Context   string          `json:"context,omitempty"` // of a document
	ToolName  string          `json:"tool_name,omitempty"`
}

// blockSource is the source of an image's or a document's bytes; for a search result it is a text.
type blockSource struct {
	Type    string `json:"type"`
	Media   string `json:"media_type"`
	Data    string `json:"data"`
	URL     string `json:"url"`
	Content blocks `json:"content"`
	Text    string `json:"text"` // if it is a text
}

func (s *blockSource) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &s.Text) == nil {
		return nil
	}
	type plain blockSource
	return json.Unmarshal(data, (*plain)(s))
}

// blocks are a list, or a text that stands for one text block. An object, such as the content of an ignored result,
// becomes a block of the type "object", which is rejected like other unknown types.
type blocks []block

func (b *blocks) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		*b = blocks{{Type: "object"}}
		return nil
	}
	return listOrText(data, (*[]block)(b), func(text string) block { return block{Type: "text", Text: text} })
}

// foreignBlocks are blocks that hosted tools of other services produce; such blocks in a history are left out.
var foreignBlocks = names("server_tool_use web_search_tool_result web_fetch_tool_result code_execution_tool_result " +
	"bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result mcp_tool_use mcp_tool_result " +
	"container_upload advisor_tool_result browser_state fallback")

// known are the blocks that are not left out.
func (b blocks) known() blocks {
	return slices.DeleteFunc(slices.Clone(b), func(block block) bool {
		if foreignBlocks[block.Type] {
			warnOnce("blocks of the type %q are left out", block.Type)
			return true
		}
		return block.Type == "redacted_thinking" // only another service can read it
	})
}

// messages converts the blocks of a role to messages; names maps ids of tool calls to names of tools.
func (b blocks) messages(role string, names map[string]string) (all []any, err error) {
	b = b.known()
	switch role {
	case "system":
		text, err := b.texts()
		return []any{message{Role: role, Content: text}}, err
	case "assistant":
		message := message{Role: role}
		var said blocks
		for i, block := range b {
			switch block.Type {
			case "text":
				said = append(said, block)
			case "compaction": // a summary of the conversation
				said = append(said, block.Content...)
			case "thinking":
				message.ReasoningContent += block.Thinking
			case "tool_use":
				names[block.ID] = block.Name
				call := toolCall{block.ID, "function", function{block.Name, wholeArguments(string(block.Input))}}
				message.ToolCalls = append(message.ToolCalls, call)
			default:
				return nil, fmt.Errorf("content.%d.type is %.100q; it must be a supported type", i, block.Type)
			}
		}
		if len(said) > 0 || len(message.ToolCalls) == 0 {
			message.Content, err = said.texts()
		}
		return []any{message}, err
	case "user":
	default:
		return nil, fmt.Errorf("role is %.100q; it must be \"user\", \"assistant\" or \"system\"", role)
	}
	if len(b) == 0 {
		return nil, errors.New("content is empty; it must have a block")
	}
	var said blocks
	flush := func() (err error) {
		if len(said) > 0 {
			var content any
			content, err = said.content()
			all = append(all, message{Role: role, Content: content})
		}
		said = nil
		return err
	}
	for i, block := range b {
		if block.Type != "tool_result" {
			said = append(said, block)
			continue
		}
		if err := flush(); err != nil {
			return nil, err
		}
		name, known := names[block.ToolUseID]
		if !known {
			return nil, fmt.Errorf("content.%d.tool_use_id is %.100q; it must be the id of a tool_use block in an earlier message", i, block.ToolUseID)
		}
		content, err := block.Content.known().content()
		if err != nil {
			return nil, fmt.Errorf("content.%d.%w", i, err)
		}
		if text, ok := content.(string); ok && block.IsError {
			content = "Error: " + text
		}
		all = append(all, message{Role: "tool", Content: content, Name: name, ToolCallID: block.ToolUseID})
	}
	return all, flush()
}

// document returns the blocks of a document: title and context, then the text or the blocks of its content.
func (b *block) document() (all blocks, err error) {
	for _, text := range []string{b.Title, b.Context} {
		if text != "" {
			all = append(all, block{Type: "text", Text: text})
		}
	}
	switch source := b.Source; {
	case source == nil:
		return nil, errors.New("source is missing")
	case source.Type == "text":
		return append(all, block{Type: "text", Text: source.Data}), nil
	case source.Type == "content":
		return append(all, source.Content...), nil
	case source.Type == "base64" && strings.HasPrefix(source.Media, "text/"):
		text, _, err := readText("", "data:"+source.Media+";base64,"+source.Data)
		return append(all, block{Type: "text", Text: text}), err
	default:
		return nil, fmt.Errorf("source.type is %.100q with the media type %s; it must be \"text\", \"content\", or \"base64\" of a text", source.Type, source.Media)
	}
}

// flat replaces documents, search results and tool references by their blocks.
func (b blocks) flat() (all blocks, err error) {
	for i, one := range b {
		switch one.Type {
		case "document":
			inner, err := one.document()
			if err != nil {
				return nil, fmt.Errorf("content.%d.%w", i, err)
			}
			all = append(all, inner...)
		case "search_result":
			if one.Title != "" {
				all = append(all, block{Type: "text", Text: one.Title})
			}
			if one.Source != nil && one.Source.Text != "" {
				all = append(all, block{Type: "text", Text: one.Source.Text})
			}
			all = append(all, one.Content...)
		case "tool_reference":
			all = append(all, block{Type: "text", Text: one.ToolName})
		default:
			all = append(all, one)
		}
	}
	return all, nil
}

// content is the content of a message: a text, or parts if it has images.
func (b blocks) content() (any, error) {
	b, err := b.flat()
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(b, func(block block) bool { return block.Type == "image" }) {
		return b.texts()
	}
	var parts []any
	for i, block := range b {
		switch {
		case block.Type == "text":
			parts = append(parts, textPart{"text", block.Text})
			continue
		case block.Type != "image" || block.Source == nil:
			return nil, fmt.Errorf("content.%d.type is %.100q; it must be \"text\", or \"image\" with a source", i, block.Type)
		}
		read := func() (*mediaItem, error) { return readBase64("image", block.Source.Data) }
		if block.Source.Type == "url" {
			read = func() (*mediaItem, error) { return readPicture(block.Source.URL) }
		} else if block.Source.Type != "base64" {
			return nil, fmt.Errorf("content.%d.source.type is %.100q; it must be \"base64\" or \"url\"", i, block.Source.Type)
		}
		picture, err := read()
		if err != nil {
			return nil, fmt.Errorf("content.%d.source: %w", i, err)
		}
		parts = append(parts, picture)
	}
	return parts, nil
}

// texts joins the texts of all blocks with line ends; it fails unless all are text.
func (b blocks) texts() (string, error) {
	texts := make([]string, len(b))
	for i, block := range b {
		if block.Type != "text" {
			return "", fmt.Errorf("content.%d.type is %.100q; it must be a supported type", i, block.Type)
		}
		texts[i] = block.Text
	}
	return strings.Join(texts, "\n"), nil
}
