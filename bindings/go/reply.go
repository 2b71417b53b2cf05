package realizar

/*
#include <realizar.h>
*/
import "C"

import (
	"unsafe"
)

// PartKind says what a part of a reply is.
type PartKind uint32

const (
	PartReasoning     PartKind = C.RZ_CHAT_EVENT_REASONING
	PartContent       PartKind = C.RZ_CHAT_EVENT_CONTENT
	PartToolID        PartKind = C.RZ_CHAT_EVENT_TOOL_ID        // whole; a call begins with it, and its message has the same
	PartToolName      PartKind = C.RZ_CHAT_EVENT_TOOL_NAME      // whole
	PartToolArguments PartKind = C.RZ_CHAT_EVENT_TOOL_ARGUMENTS // a piece of a JSON object
	PartEnd           PartKind = C.RZ_CHAT_EVENT_END
)

// Part is a part of a reply.
type Part struct {
	Kind     PartKind
	Call     int // number of the call that an id, a name or arguments belong to
	Text     string
	Unparsed bool // content that begins like a call and is none; with PartEnd: there was such, or a call broke off
}

// ChatParser takes a reply apart while its tokens come. It belongs to one call at a time.
type ChatParser struct{ parser *owned[*C.rz_chat_parser] }

// NewChatParser makes a parser for the reply to a transcript.
func (m *Model) NewChatParser(transcript *Transcript) (*ChatParser, error) {
	text, err := marshal(transcript)
	if err != nil {
		return nil, err
	}
	return made(m.model, func(model *C.rz_model, out **C.rz_chat_parser, e *C.rz_error) C.rz_status {
		return C.rz_chat_parser_new(model, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)), nil, out, e)
	}, func(handle *C.rz_chat_parser) { C.rz_chat_parser_free(handle) }, func(o *owned[*C.rz_chat_parser]) *ChatParser { return &ChatParser{o} })
}

// Push adds a token and returns the parts that it completes, often none.
func (p *ChatParser) Push(token uint32) ([]Part, error) {
	return p.parts(func(parser *C.rz_chat_parser, e *C.rz_error) C.rz_status {
		return C.rz_chat_parser_push(parser, C.uint32_t(token), e)
	})
}

// End ends the reply and returns the rest of it.
func (p *ChatParser) End() ([]Part, error) {
	return p.parts(func(parser *C.rz_chat_parser, e *C.rz_error) C.rz_status { return C.rz_chat_parser_end(parser, e) })
}

func (p *ChatParser) parts(step func(parser *C.rz_chat_parser, e *C.rz_error) C.rz_status) (parts []Part, err error) {
	if err := use(p.parser, step); err != nil {
		return nil, err
	}
	return partsOf(p.parser, func(handle *C.rz_chat_parser, kind, flags, index *C.uint32_t, out *C.char, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_chat_parser_next_into(handle, kind, flags, index, out, capacity, n, e)
	})
}

// partsOf is the parts that an object has ready.
func partsOf[H any](object *owned[H],
	next func(handle H, kind, flags, index *C.uint32_t, out *C.char, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status) (parts []Part, err error) {
	for {
		var kind, flags, index C.uint32_t
		text, err := sized(object, 256, func(handle H, out *byte, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
			return next(handle, &kind, &flags, &index, (*C.char)(unsafe.Pointer(out)), capacity, n, e)
		})
		if err != nil || kind == 0 {
			return parts, err
		}
		parts = append(parts, Part{
			Kind: PartKind(kind), Call: int(index), Text: string(text), Unparsed: flags&C.RZ_CHAT_EVENT_FLAG_UNPARSED != 0,
		})
	}
}

// Close frees the parser. Closing twice is fine.
func (p *ChatParser) Close() error {
	p.parser.close()
	return nil
}
