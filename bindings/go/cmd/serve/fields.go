// Names of the fields of requests: the fields that are read, ignored or rejected.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"realizar.dev/go"
)

// leftOut are the fields that are accepted and change no answer, by the type of the object: fields of the published
// schemas of OpenAI and Anthropic, and fields that known clients send. The name "*" stands for every other field,
// because an object that a client sends back may have fields of any other service.
var leftOut = map[reflect.Type]map[string]bool{
	reflect.TypeFor[chatRequest](): names("audio cache_prompt client_metadata extra_body include_reasoning metadata moderation prediction guided_decoding_backend guided_whitespace_pattern " +
		"prompt_cache_key prompt_cache_options prompt_cache_retention provider safety_identifier service_tier session_id store user " +
		"verbosity web_search_options"),
	reflect.TypeFor[completionRequest](): names("cache_prompt guided_decoding_backend guided_whitespace_pattern metadata prompt_cache_key session_id user"),
	reflect.TypeFor[embeddingRequest]():  names("input_type metadata truncate user"),
	reflect.TypeFor[rerankRequest]():     names("metadata priority user"),
	reflect.TypeFor[infillRequest](): names("cache_prompt id_slot n_indent n_keep n_cache_reuse response_fields samplers t_max_predict_ms " +
		"t_max_prompt_ms timings_per_token user"),
	reflect.TypeFor[templateRequest](): names("max_completion_tokens max_tokens parallel_tool_calls response_format stream temperature " +
		"tool_choice top_k top_p"),
	reflect.TypeFor[responseRequest](): names("access_programs background_options client_metadata context_management image max_tool_calls " +
		"moderation personality prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier service_tier session_id " +
		"stream_options user"),
	reflect.TypeFor[messagesRequest](): names("betas billing_policy cache_control client_metadata context_management diagnostics " +
		"fallback_credit_token inference_geo metadata service_tier session_id speed user_profile_id workspace_id"),
	reflect.TypeFor[streamOptions]():     names("include_obfuscation"),
	reflect.TypeFor[responseText]():      names("verbosity"),
	reflect.TypeFor[structuredOutputs](): names("disable_additional_properties disable_any_whitespace disable_fallback whitespace_pattern"),
	reflect.TypeFor[responseEffort]():    names("context generate_summary mode"),
	reflect.TypeFor[reasoningWish]():     names("context enabled exclude generate_summary mode summary"),
	reflect.TypeFor[thinking]():          names("clear_thinking display"),
	reflect.TypeFor[outputConfig]():      names("task_budget"),
	reflect.TypeFor[threadWish]():        names("*"),
	reflect.TypeFor[toolWish]():          names("*"),
	reflect.TypeFor[chatMessage]():       names("*"),
	reflect.TypeFor[chatPart]():          names("*"),
	reflect.TypeFor[chatTool]():          names("*"),
	reflect.TypeFor[customTool]():        names("*"),
	reflect.TypeFor[declaration]():       names("*"),
	reflect.TypeFor[chatCall]():          names("*"),
	reflect.TypeFor[customCall]():        names("*"),
	reflect.TypeFor[function]():          names("*"),
	reflect.TypeFor[item]():              names("*"),
	reflect.TypeFor[itemPart]():          names("*"),
	reflect.TypeFor[responseTool]():      names("*"),
	reflect.TypeFor[turn]():              names("*"),
	reflect.TypeFor[block]():             names("*"),
	reflect.TypeFor[blockSource]():       names("*"),
	reflect.TypeFor[messageTool]():       names("*"),
	reflect.TypeFor[messageFormat]():     names("name strict"),
	reflect.TypeFor[urlOrObject]():       names("*"),
}

func names(list string) map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(list) {
		all[name] = true
	}
	return all
}

// forms maps a type with its own JSON decoding to the type that declares its fields.
var forms = map[reflect.Type]reflect.Type{
	reflect.TypeFor[chatContent](): reflect.TypeFor[[]chatPart](),
	reflect.TypeFor[rawChatTool](): reflect.TypeFor[chatTool](),
	reflect.TypeFor[rawTool]():     reflect.TypeFor[responseTool](),
}

// fieldsOf are the fields of a struct by their JSON names, including the fields of embedded structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, found := fieldCache.Load(t); found {
		return known.(map[string]reflect.Type)
	}
	all := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			for name, inner := range fieldsOf(field.Type) {
				all[name] = inner
			}
		case name != "" && name != "-":
			all[name] = field.Type
		}
	}
	fieldCache.Store(t, all)
	return all
}

var fieldCache sync.Map

// checkNames compares the field names of a request with the fields of its type, because encoding/json ignores case.
// Fields without an effect are named once in the log. The JSON must be valid.
func checkNames(body []byte, t reflect.Type) error {
	c := nameCheck{in: json.NewDecoder(bytes.NewReader(body))}
	c.in.UseNumber() // numbers may be larger than floats
	return c.value(t)
}

// nameCheck is a walk over JSON that is valid.
type nameCheck struct {
	in   *json.Decoder
	hops []hop // from the request to the present position
}

// hop is a field, or an entry of a list.
type hop struct {
	name  string
	entry int
}

// path returns the present position, such as "messages[0].role".
func (c *nameCheck) path() string {
	var out strings.Builder
	for i, hop := range c.hops {
		switch {
		case hop.name == "":
			fmt.Fprintf(&out, "[%d]", hop.entry)
		case i > 0:
			out.WriteString("." + hop.name)
		default:
			out.WriteString(hop.name)
		}
	}
	return out.String()
}

// value walks over a value of a type; nil: all names are allowed in it.
func (c *nameCheck) value(t reflect.Type) error {
	for t != nil {
		if form, found := forms[t]; found {
			t = form
		} else if t.Kind() == reflect.Pointer {
			t = t.Elem()
		} else {
			break
		}
	}
	token, err := c.in.Token()
	if last := len(c.hops) - 1; err == nil && token == nil && last >= 0 && c.hops[last].name == "" && t != nil && isScalar[t.Kind()] {
		return refuse(c.path(), "%s is null; it must be a %s", c.path(), t.Kind())
	}
	if token != json.Delim('{') && token != json.Delim('[') {
		return err
	}
	var fields map[string]reflect.Type
	var inner reflect.Type // of entries
	if t != nil && t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	} else if t != nil && t.Kind() == reflect.Slice {
		inner = t.Elem()
	}
	c.hops = append(c.hops, hop{})
	last := len(c.hops) - 1
	for ; err == nil && c.in.More(); c.hops[last].entry++ {
		of := inner
		if token == json.Delim('{') {
			var key json.Token
			if key, err = c.in.Token(); err != nil {
				break
			}
			name := key.(string)
			c.hops[last].name, of = name, fields[name]
			if fields != nil {
				err = c.name(t, fields, name)
			}
		}
		if err == nil {
			err = c.value(of)
		}
	}
	c.hops = c.hops[:last]
	if err == nil {
		_, err = c.in.Token() // the end
	}
	return err
}

// isScalar has the kinds of list entries for which encoding/json accepts null.
var isScalar = map[reflect.Kind]bool{reflect.String: true, reflect.Uint32: true, reflect.Float32: true, reflect.Int: true}

// name checks the name of a field of an object of a type.
func (c *nameCheck) name(t reflect.Type, fields map[string]reflect.Type, name string) error {
	if _, found := fields[name]; found {
		return nil
	}
	out := leftOut[t]
	if out[name] {
		warnOnce("the field %q has no effect", c.path())
		return nil
	}
	for other := range fields {
		if strings.EqualFold(name, other) {
			return refuse(c.path(), "the field %q is unknown; use %q", c.path(), other)
		}
	}
	if !out["*"] {
		return refuse(c.path(), "the field %q is unknown", c.path())
	}
	warnOnce("the field %q is unknown and ignored", c.path())
	return nil
}

// said are the warnings that have been logged, by their source.
var said struct {
	sync.Mutex
	all map[string]map[string]bool
}

// maxWarnings bounds the number of distinct warnings of a source, because clients choose their subjects.
const maxWarnings = 256

// index matches the index of a list entry in a path.
var index = regexp.MustCompile(`\[[0-9]+\]`)

// warnOnce logs a warning about a request, once. Indices of list entries are removed from the warning.
func warnOnce(format string, what ...string) {
	arguments := make([]any, len(what))
	for i, text := range what {
		text = index.ReplaceAllString(text[:min(len(text), 320)], ".")
		if len(text) > 80 {
			text = strings.ToValidUTF8(text[:80], "") + "..."
		}
		arguments[i] = text
	}
	sayOnce("requests", fmt.Sprintf(format, arguments...))
}

// sayOnce logs a line of a source, unless that line has been logged already.
func sayOnce(source, text string) {
	said.Lock()
	defer said.Unlock()
	if said.all == nil {
		said.all = map[string]map[string]bool{}
	}
	if said.all[source] == nil {
		said.all[source] = map[string]bool{}
	}
	if known := said.all[source]; !known[text] && len(known) < maxWarnings {
		known[text] = true
		warn("%s: %s (logged once)", source, text)
	}
}

// libraryLog writes the library's log messages, except those about loading models, which the service logs itself.
func libraryLog(level realizar.LogLevel, message string) {
	switch level {
	case realizar.LogError:
		alarm("the library: %s", message)
	case realizar.LogWarning:
		sayOnce("the library", message)
	}
}
