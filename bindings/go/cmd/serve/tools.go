// Tools of requests: converts the tools of the APIs to functions, and tool calls back to the form of the called tool.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"realizar.dev/go"
)

// tool is a function that may be called, as the library takes it.
type tool struct {
	Type     string       `json:"type"` // "function"
	Function *declaration `json:"function"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // schema
	Strict      *bool           `json:"strict,omitempty"`     // true: calls follow every word of the schema
}

// rawTool is a tool of OpenAI's responses as the request writes it.
type rawTool struct{ json.RawMessage }

// rawChatTool is a tool of OpenAI's chats as the request writes it.
type rawChatTool struct{ json.RawMessage }

// responseTool is a tool of OpenAI's responses.
type responseTool struct {
	Type string `json:"type"`
	declaration
	Format *customFormat `json:"format"` // of a custom tool
	Tools  []rawTool     `json:"tools"`  // of a namespace
}

// chatTool is a tool of OpenAI's chats.
type chatTool struct {
	Type     string       `json:"type"`
	Function *declaration `json:"function"`
	Custom   *customTool  `json:"custom"`
}

// customTool is a tool whose input is a text instead of JSON.
type customTool struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Format      *customFormat `json:"format"`
}

// customFormat defines the texts that a custom tool accepts. A grammar is in a separate object in chats, and directly
// in the format in responses.
type customFormat struct {
	Type       string        `json:"type"`
	Syntax     string        `json:"syntax"`
	Definition string        `json:"definition"`
	Grammar    *customSyntax `json:"grammar"`
}

type customSyntax struct {
	Syntax     string `json:"syntax"`
	Definition string `json:"definition"`
}

// toolbox has the tools of a request as functions, and the tool that each function represents.
type toolbox struct {
	tools   []any              // for the library
	origins map[string]*origin // by name of the function
}

// origin is the tool that a function represents.
type origin struct {
	namespace, name string
	custom          bool
}

// customInput is the parameter of a function that represents a custom tool.
const customInput = "input"

// origin returns the tool that a function represents.
func (b *toolbox) origin(name string) *origin {
	if b != nil {
		if found := b.origins[name]; found != nil {
			return found
		}
	}
	return &origin{name: name}
}

// function returns the name of the function that represents a tool of a namespace.
func (o *origin) function() string {
	switch {
	case o.namespace == "":
		return o.name
	case strings.HasSuffix(o.namespace, "_") || strings.HasSuffix(o.namespace, "."):
		return o.namespace + o.name
	}
	return o.namespace + "__" + o.name
}

// put adds a function; its name must be unique.
func (b *toolbox) put(param string, d declaration, o *origin) error {
	if d.Name == "" {
		return refuse(param, "%s.name is missing", param)
	}
	if string(bytes.TrimSpace(d.Parameters)) == "null" {
		d.Parameters = nil
	}
	o.name = d.Name
	d.Name = o.function()
	if b.origins == nil {
		b.origins = map[string]*origin{}
	}
	if b.origins[d.Name] != nil {
		return refuse(param, "%s.name is %q; it must differ from the names of other tools", param, d.Name)
	}
	b.origins[d.Name] = o
	b.tools = append(b.tools, tool{"function", &d})
	return nil
}

// putCustom adds a custom tool: a function that takes its input as a string.
func (b *toolbox) putCustom(param string, custom *customTool, namespace string) error {
	text := map[string]any{"type": "string"}
	if f := custom.Format; f != nil && f.Type == "grammar" {
		syntax := customSyntax{f.Syntax, f.Definition}
		if f.Grammar != nil {
			syntax = *f.Grammar
		}
		switch syntax.Syntax {
		case "regex":
			text["pattern"] = "^(?:" + syntax.Definition + ")$"
		case "lark": // which JSON schemas cannot express; the model reads it instead
			text["description"] = "Follows this grammar, in Lark's syntax:\n" + syntax.Definition
			warnOnce("the Lark grammar of the custom tool %q is shown to the model but not enforced", custom.Name)
		default:
			return refuse(param, "the syntax of the grammar of %s is %q; it must be \"regex\" or \"lark\"", param, syntax.Syntax)
		}
	} else if f != nil && f.Type != "text" && f.Type != "" {
		return refuse(param, "%s.format.type is %q; it must be \"text\" or \"grammar\"", param, f.Type)
	}
	schema, err := marshal(map[string]any{
		"type": "object", "properties": map[string]any{customInput: text}, "required": []string{customInput}, "additionalProperties": false,
	})
	if err != nil {
		return err
	}
	return b.put(param, declaration{Name: custom.Name, Description: custom.Description, Parameters: schema}, &origin{namespace: namespace, custom: true})
}

// hosted matches the types of tools that a service runs itself, or whose schema other models were trained on. The model
// does not get these tools.
var hosted = regexp.MustCompile(`^(web_search|web_search_preview|web_fetch|file_search|computer|computer_use|computer_use_preview|` +
	`code_interpreter|code_execution|programmatic_tool_calling|image_generation|local_shell|shell|apply_patch|tool_search|mcp|mcp_toolset|` +
	`memory|advisor|bash|text_editor|browser_toolset|computer_toolset|tool_search_tool_[a-z0-9]+)(_\d{8}|_\d{4}_\d{2}_\d{2})?$|^[a-z][a-z0-9_]*_\d{8}$`)

// leaveOut reports whether a type of tools is hosted, and logs the omitted type.
func leaveOut(kind string) bool {
	if !hosted.MatchString(kind) {
		return false
	}
	warnOnce("tools of the type %q are not offered to the model", kind)
	return true
}

// addChat adds tools of OpenAI's chats.
func (b *toolbox) addChat(all []rawChatTool) error {
	for i, raw := range all {
		param := fmt.Sprintf("tools[%d]", i)
		var t chatTool
		if err := json.Unmarshal(raw.RawMessage, &t); err != nil {
			return refuse(param, "%s is not a valid tool: %v", param, err)
		}
		var err error
		switch {
		case t.Type == "function" && t.Function != nil:
			err = b.put(param, *t.Function, &origin{})
		case t.Type == "custom" && t.Custom != nil:
			err = b.putCustom(param, t.Custom, "")
		case !leaveOut(t.Type):
			err = refuse(param, "%s needs the type \"function\" and a \"function\", or the type \"custom\" and a \"custom\"", param)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds tools of OpenAI's responses; tools of a namespace are named after the namespace and the tool.
func (b *toolbox) add(path, namespace string, all []rawTool) error {
	for i, raw := range all {
		param := fmt.Sprintf("%s[%d]", path, i)
		var t responseTool
		if err := json.Unmarshal(raw.RawMessage, &t); err != nil {
			return refuse(param, "%s is not a valid tool: %v", param, err)
		}
		var err error
		switch {
		case t.Type == "function":
			err = b.put(param, t.declaration, &origin{namespace: namespace})
		case t.Type == "custom":
			err = b.putCustom(param, &customTool{t.Name, t.Description, t.Format}, namespace)
		case t.Type == "namespace" && namespace == "":
			if t.Name == "" {
				err = refuse(param, "%s.name is missing", param)
			} else {
				err = b.add(param+".tools", t.Name, t.Tools)
			}
		case !leaveOut(t.Type):
			err = refuse(param, "%s.type is %q; it must be \"function\", \"custom\" or \"namespace\"", param, t.Type)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namedTool is a tool that a request chooses, in the form of chats or of responses.
type namedTool struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Function  *struct {
		Name string `json:"name"`
	} `json:"function"`
	Custom *struct {
		Name string `json:"name"`
	} `json:"custom"`
}

// find returns the name of the function that represents a named tool; "" if there is none.
func (b *toolbox) find(named *namedTool) string {
	name := named.Name
	if named.Function != nil {
		name = named.Function.Name
	} else if named.Custom != nil {
		name = named.Custom.Name
	}
	if named.Type != "function" && named.Type != "custom" {
		return ""
	}
	full := (&origin{namespace: named.Namespace, name: name}).function()
	if b.origins[full] != nil {
		return full
	}
	for function, origin := range b.origins { // a tool of a namespace that the request does not name
		if origin.name == name && named.Namespace == "" {
			return function
		}
	}
	return ""
}

// toolChoice is OpenAI's "tool_choice": a word, a tool, or a list of allowed tools.
type toolChoice struct {
	namedTool
	Mode    string      `json:"mode"`
	Tools   []namedTool `json:"tools"`
	Allowed *struct {
		Mode  string      `json:"mode"`
		Tools []namedTool `json:"tools"`
	} `json:"allowed_tools"`
}

// choose adds to a transcript the tools and the choice of tools that may be called.
func (b *toolbox) choose(t *realizar.Transcript, raw json.RawMessage) error {
	t.Tools = b.tools
	var word string
	var choice toolChoice
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &word) == nil:
		if word != "auto" && word != "none" && word != "required" {
			return refuse("tool_choice", "tool_choice is %q; it must be \"auto\", \"none\", \"required\", or an object that names a tool", word)
		}
		t.ToolChoice = word
	case json.Unmarshal(raw, &choice) != nil:
		return refuse("tool_choice", "tool_choice must be \"auto\", \"none\", \"required\", or an object that names a tool")
	case choice.Type == "allowed_tools":
		if choice.Allowed != nil {
			choice.Mode, choice.Tools = choice.Allowed.Mode, choice.Allowed.Tools
		}
		return b.allow(t, &choice)
	default:
		name := b.find(&choice.namedTool)
		if name == "" {
			return refuse("tool_choice", "tool_choice names a tool that is not in tools")
		}
		t.ToolChoice = map[string]any{"type": "function", "function": map[string]any{"name": name}}
	}
	return called(t)
}

// called checks that there is a tool if a tool call is required.
func called(t *realizar.Transcript) error {
	if len(t.Tools) > 0 {
		return nil
	}
	if t.ToolChoice == "required" {
		return refuse("tool_choice", "tool_choice is \"required\"; it needs tools that the model may call")
	}
	t.ToolChoice = nil
	return nil
}

// allow passes only the allowed tools to the model.
func (b *toolbox) allow(t *realizar.Transcript, choice *toolChoice) error {
	if choice.Mode != "auto" && choice.Mode != "required" {
		return refuse("tool_choice", "tool_choice.mode is %q; it must be \"auto\" or \"required\"", choice.Mode)
	}
	allowed := map[string]bool{}
	for i, one := range choice.Tools {
		if name := b.find(&one); name != "" {
			allowed[name] = true
		} else if !leaveOut(one.Type) {
			return refuse("tool_choice", "tool_choice.tools[%d] names a tool that is not in tools", i)
		}
	}
	t.Tools = slices.DeleteFunc(slices.Clone(b.tools), func(one any) bool { return !allowed[one.(tool).Function.Name] })
	t.ToolChoice = choice.Mode
	return called(t)
}

// inputOf extracts the input of a custom tool from the arguments of its function. From truncated arguments it extracts
// the part that is present.
func inputOf(arguments string) string {
	var object map[string]json.RawMessage
	var text string
	if json.Unmarshal([]byte(arguments), &object) == nil && json.Unmarshal(object[customInput], &text) == nil {
		return text
	}
	_, rest, found := strings.Cut(arguments, `"`+customInput+`"`)
	_, rest, colon := strings.Cut(rest, ":")
	if !found || !colon {
		return ""
	}
	rest = strings.TrimSpace(rest)
	const escape = 12 // maximum bytes of an escape, within which the arguments may be truncated
	for n := 0; n < escape && rest != ""; n++ {
		if json.Unmarshal([]byte(rest+`"`), &text) == nil {
			return text
		}
		rest = rest[:len(rest)-1]
	}
	return ""
}

// argumentsOf returns the arguments of the function that represents a custom tool.
func argumentsOf(input string) string {
	text, err := marshal(map[string]string{customInput: input})
	if err != nil { // a text always has a JSON form
		return "{}"
	}
	return string(text)
}

// wholeArguments returns the arguments of a call in a history. Truncated arguments become "{}", because templates parse
// arguments.
func wholeArguments(text string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil || object == nil {
		return "{}"
	}
	return text
}
