// Caches of a model: idle conversations and sessions that the next requests continue.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"

	"realizar.dev/go"
)

// minCommon is the minimum common prefix, in tokens, for a text to continue another text's cache.
const minCommon = 16

// cache is the KV cache of an earlier text: a conversation, or a session for text completion. The library compares
// tokens, so a cache never changes an answer.
type cache struct {
	conversation *realizar.Conversation
	session      *realizar.Session
	store        *realizar.Store // store to which the session is added; nil: none
	setup        string          // name of the model, tools and variables that it was created with
	trace        []uint64        // its tokens, or hashes of its messages, to find the longest common prefix
}

func (c *cache) close() {
	if c.conversation != nil {
		c.conversation.Close()
	} else {
		c.session.Close()
	}
}

// fork copies a cache.
func (c *cache) fork() (*cache, error) {
	fork, err := *c, error(nil)
	if c.conversation != nil {
		fork.conversation, err = c.conversation.Fork()
	} else {
		fork.session, err = c.session.Fork()
	}
	return &fork, err
}

// setupOf returns the setup that a cache needs for a generation, and the trace to compare.
func (l *lease) setupOf(g *generation) (setup string, trace []uint64, err error) {
	if g.Transcript == nil {
		for _, token := range g.Prompt {
			trace = append(trace, uint64(token))
		}
		return "text of " + l.name, trace, nil
	}
	without := *g.Transcript
	without.Messages = nil
	text, err := json.Marshal(without)
	for _, message := range g.Transcript.Messages {
		text, e := json.Marshal(message)
		err = errors.Join(err, e)
		sum := sha256.Sum256(text)
		trace = append(trace, binary.LittleEndian.Uint64(sum[:]))
	}
	return "chat of " + l.name + string(text), trace, err
}

// recall returns the cache for a generation: the one with the longest common prefix, a fork of it if the generation
// would drop tokens that others may continue from, or a new cache. The caller must have a slot.
func (l *lease) recall(g *generation, setup string, trace []uint64) (c *cache, err error) {
	e := l.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	best, most := -1, 0
	if g.Transcript == nil {
		most = minCommon - 1
	}
	for i, c := range e.caches {
		if n := inCommon(c.trace, trace); c.setup == setup && n > most {
			best, most = i, n
		}
	}
	if best >= 0 && most < len(e.caches[best].trace) && e.outlasts && len(l.adapters) == 0 {
		best = -1 // the store has its prefix, and maybe a longer one
	}
	if best >= 0 && (most == len(e.caches[best].trace) || e.alive == e.slots && len(e.caches) == 1) {
		c := e.caches[best]
		e.caches = slices.Delete(e.caches, best, best+1)
		return c, nil
	}
	if e.alive == e.slots { // then one is idle, because the caller has a slot
		oldest := 0
		if best == 0 {
			oldest = 1
		}
		e.caches[oldest].close()
		e.caches = slices.Delete(e.caches, oldest, oldest+1)
		e.alive--
		best -= min(1, max(0, best-oldest))
	}
	if best >= 0 {
		c, err = e.caches[best].fork()
	} else {
		c, err = l.remember(g)
	}
	if err != nil {
		return nil, err
	}
	c.setup = setup
	e.alive++
	return c, nil
}

func inCommon(a, b []uint64) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// remember creates a cache from the prefix in the store.
func (l *lease) remember(g *generation) (*cache, error) {
	store, options := l.engine.store, &l.engine.session
	if len(l.adapters) > 0 { // with adapters, the same tokens have another KV cache
		store = nil
	}
	if g.Transcript != nil {
		chat := realizar.ConversationOptions{Transcript: *g.Transcript, Cache: *options, Adapters: l.adapters, Store: store}
		chat.Messages = nil
		conversation, err := l.NewConversation(&chat)
		return &cache{conversation: conversation}, err
	}
	if store != nil {
		session, err := store.Take(g.Prompt, options)
		return &cache{session: session, store: store}, err
	}
	session, err := l.NewSession(options)
	if err == nil && len(l.adapters) > 0 {
		err = session.SetAdapters(l.adapters...)
	}
	return &cache{session: session}, err
}

// rest adds a cache to the idle ones, or frees it if it is useless.
func (e *engine) rest(c *cache, useless bool) {
	if c.conversation != nil && c.conversation.AddMessages() != nil { // this gives up an abandoned reply
		useless = true
	}
	if c.store != nil && !useless {
		_ = c.store.Put(c.session) // without room it is dropped
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if useless {
		c.close()
		e.alive--
		return
	}
	e.caches = append(e.caches, c)
}
