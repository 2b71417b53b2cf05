package realizar

import "unsafe"

// Part is a part of a reply.
type Part struct {
	Kind     PartKind
	Call     int // index of the tool call that an id, a name or arguments belong to
	Text     string
	Unparsed bool // content that looks like a call but is none; with PartEnd: there was some, or a call broke off
}

// ChatParser parses a reply token by token. One call at a time.
type ChatParser struct{ parser *owned[*rz_chat_parser] }

// NewChatParser creates a parser for the reply to a transcript.
func (m *Model) NewChatParser(transcript *Transcript) (*ChatParser, error) {
	text, err := marshal(transcript)
	if err != nil {
		return nil, err
	}
	return made(m, func(model *rz_model, out **rz_chat_parser, e *rz_error) int32 {
		return lib.rz_chat_parser_new(model, unsafe.SliceData(text), uintptr(len(text)), nil, out, e)
	}, lib.rz_chat_parser_free, func(o *owned[*rz_chat_parser]) *ChatParser { return &ChatParser{o} })
}

// Push adds a token and returns the parts that it completes, often none.
func (p *ChatParser) Push(token uint32) ([]Part, error) {
	return p.parts(func(parser *rz_chat_parser, e *rz_error) int32 {
		return lib.rz_chat_parser_push(parser, token, e)
	})
}

// End ends the reply and returns the rest.
func (p *ChatParser) End() ([]Part, error) {
	return p.parts(lib.rz_chat_parser_end)
}

func (p *ChatParser) parts(step func(parser *rz_chat_parser, e *rz_error) int32) (parts []Part, err error) {
	handle, leave, err := p.held().enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var e rz_error
	if err := check(step(handle, &e), &e); err != nil {
		return nil, err
	}
	return partsOf(p, lib.rz_chat_parser_next_into)
}

// partsOf returns the pending parts of an object.
func partsOf[H any](object holder[H],
	next func(handle H, kind, flags, index *uint32, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32) (parts []Part, err error) {
	for {
		var kind, flags, index uint32
		text, err := sized(object, 256, func(handle H, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
			return next(handle, &kind, &flags, &index, out, capacity, n, e)
		})
		if err != nil || kind == 0 {
			return parts, err
		}
		parts = append(parts, Part{
			Kind: PartKind(kind), Call: int(index), Text: string(text), Unparsed: flags&rz_CHAT_EVENT_FLAG_UNPARSED != 0,
		})
	}
}

// Close frees the parser. Closing twice is fine.
func (p *ChatParser) Close() error {
	return p.held().close()
}
