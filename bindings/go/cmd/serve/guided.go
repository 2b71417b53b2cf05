// Constrained decoding with the fields of llama-server and vLLM.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"realizar.dev/go"
)

const maxChoices = 10000 // texts of a choice

// guided has the fields that constrain a reply, in addition to OpenAI's "response_format". A request sets one.
type guided struct {
	Grammar    string             `json:"grammar"`     // GBNF, of llama-server
	JSONSchema json.RawMessage    `json:"json_schema"` // of llama-server
	JSON       json.RawMessage    `json:"guided_json"` // a schema, or its text
	Regex      string             `json:"guided_regex"`
	Choice     []string           `json:"guided_choice"`
	EBNF       string             `json:"guided_grammar"`
	Structured *structuredOutputs `json:"structured_outputs"`
}

// structuredOutputs is the newer form of vLLM.
type structuredOutputs struct {
	JSON       json.RawMessage `json:"json"`
	Regex      string          `json:"regex"`
	Choice     []string        `json:"choice"`
	Grammar    string          `json:"grammar"`
	JSONObject bool            `json:"json_object"`
}

// constrain makes the reply follow the constraint that the request sets.
func (q *guided) constrain(g *generation) error {
	if err := g.schema("json_schema", q.JSONSchema); err != nil {
		return err
	}
	if err := g.follow("grammar", realizar.GrammarGBNF, q.Grammar); err != nil {
		return err
	}
	if err := g.guide("guided_", q.JSON, q.Regex, q.EBNF, q.Choice); err != nil || q.Structured == nil {
		return err
	}
	const prefix = "structured_outputs."
	s := q.Structured
	if s.JSONObject {
		if err := g.follow(prefix+"json_object", realizar.GrammarJSONSchema, jsonObject); err != nil {
			return err
		}
	}
	return g.guide(prefix, s.JSON, s.Regex, s.Grammar, s.Choice)
}

// guide makes a reply follow one of vLLM's kinds of constraints, whose fields begin with a prefix.
func (g *generation) guide(prefix string, schema json.RawMessage, regex, grammar string, choice []string) error {
	if err := g.schema(prefix+"json", schema); err != nil {
		return err
	}
	if err := g.follow(prefix+"regex", realizar.GrammarRegex, regex); err != nil {
		return err
	}
	kind := realizar.GrammarLark
	if strings.Contains(grammar, "::=") {
		kind = realizar.GrammarGBNF
	}
	if err := g.follow(prefix+"grammar", kind, grammar); err != nil || choice == nil {
		return err
	}
	if len(choice) == 0 {
		return refuse(prefix+"choice", "%schoice is an empty list; it must have a text", prefix)
	}
	if len(choice) > maxChoices {
		return refuse(prefix+"choice", "%schoice has %d texts; it must have at most %d", prefix, len(choice), maxChoices)
	}
	list, err := marshal(choice)
	if err != nil {
		return err
	}
	return g.follow(prefix+"choice", realizar.GrammarChoices, string(list))
}

// schema makes a reply follow a schema, which may be given as text.
func (g *generation) schema(field string, schema json.RawMessage) error {
	schema = bytes.TrimSpace(schema)
	var text string
	switch {
	case len(schema) == 0 || string(schema) == "null":
		return nil
	case json.Unmarshal(schema, &text) == nil:
	default:
		text = string(schema)
	}
	if !json.Valid([]byte(text)) {
		return refuse(field, "%s is a text that is not JSON; it must be a JSON schema", field)
	}
	return g.follow(field, realizar.GrammarJSONSchema, text)
}

// follow makes a reply follow a grammar; it fails if the request already has one. An empty text means no grammar.
func (g *generation) follow(field string, kind realizar.GrammarKind, text string) error {
	switch {
	case text == "":
		return nil
	case g.Constraint != "":
		return refuse(field, "%s and %s are both set; set one", g.Constraint, field)
	}
	g.Reply.GrammarKind, g.Reply.Grammar, g.Constraint = kind, text, field
	return nil
}

// constraint reports errors in the grammar of a generation, naming the field.
func (l *lease) constraint(g *generation) error {
	if g.Reply.GrammarKind == 0 {
		return nil
	}
	err := l.compiles(g.Reply.GrammarKind, g.Reply.Grammar, g.Reply.GrammarFlags)
	if err == nil {
		return nil
	}
	wrong := asAPIError(err)
	if wrong.status == http.StatusBadRequest || errors.Is(err, realizar.ErrOutOfMemory) { // too large a grammar
		return refuse(g.Constraint, "%s: %s", g.Constraint, wrong.message)
	}
	return err
}
