package realizar

/*
#include <realizar.h>
*/
import "C"

import (
	"context"
	"unsafe"
)

// LoadEncoderFrom is [Model.LoadEncoder] for files that are not files of their own, as [LoadFrom] takes them.
func (m *Model) LoadEncoderFrom(ctx context.Context, sources []Source, options *EncoderOptions) (encoder *Encoder, err error) {
	err = withSources(sources, func(raw *C.rz_source, n C.size_t) error {
		encoder, err = withEncoder(ctx, "", options, func(_ *C.char, params *C.rz_encoder_params) (*Encoder, error) {
			return made(m.model, func(model *C.rz_model, out **C.rz_encoder, e *C.rz_error) C.rz_status {
				return C.rz_encoder_load_from(model, raw, n, params, out, e)
			}, func(encoder *C.rz_encoder) { C.rz_encoder_free(encoder) },
				func(encoder *owned[*C.rz_encoder]) *Encoder { return &Encoder{encoder} })
		})
		return err
	})
	return encoder, err
}

// acquireMedia returns the handles of media, and a function that ends their use.
func acquireMedia(media []*Media) (list []*C.rz_media, release func(), err error) {
	var held []*Media
	release = func() {
		for _, medium := range held {
			medium.media.release()
		}
	}
	for _, medium := range media {
		handle, err := medium.media.acquire()
		if err != nil {
			release()
			return nil, nil, err
		}
		list, held = append(list, handle), append(held, medium)
	}
	return list, release, nil
}

// AddMedia is [Conversation.AddMessages] for messages whose contents have parts with the numbers of media, as
// [Model.NewChatPrompt] takes them: {"type": "image", "media": 0}. The conversation keeps the media alive. A picture
// that the model's template leaves out is [ErrUnsupported] of the reply.
func (c *Conversation) AddMedia(media []*Media, messages ...any) error {
	text, err := marshal(append([]any{}, messages...))
	if err != nil {
		return err
	}
	list, release, err := acquireMedia(media)
	if err != nil {
		return err
	}
	defer release()
	return c.change(func(handle *C.rz_conversation, e *C.rz_error) C.rz_status {
		return C.rz_conversation_add(handle, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)),
			unsafe.SliceData(list), C.size_t(len(list)), e)
	})
}

// Media is a medium of the conversation by its number in the parts of [Conversation.Messages].
func (c *Conversation) Media(number int) (*Media, error) {
	n, err := whole(number, "number")
	if err != nil {
		return nil, err
	}
	return makeMedia(c.conversation, func(handle *C.rz_conversation, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_conversation_media(handle, n, out, e)
	})
}

// TakePrompt is [Store.Take] for a prompt: [Session.PrefillPrompt] appends the rest, from token session.Len() on.
func (s *Store) TakePrompt(prompt *Prompt, options *SessionOptions) (*Session, error) {
	store, release, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	object, err := prompt.prompt.acquire()
	if err != nil {
		return nil, err
	}
	defer prompt.prompt.release()
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return makeSession(s.model, func(_ *C.rz_model, cache **C.rz_cache, e *C.rz_error) C.rz_status {
		var common C.uint32_t
		return C.rz_store_take_prompt(store, object, &params, nil, cache, &common, e)
	})
}

// EmbedPrompts is [Model.Embed] for prompts, which may have pictures.
func (m *Model) EmbedPrompts(ctx context.Context, prompts []*Prompt, options *EmbedOptions) ([][]float32, error) {
	if options == nil {
		options = &EmbedOptions{}
	}
	if len(prompts) == 0 {
		return nil, nil
	}
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	params := options.params()
	vectors, list := len(prompts), make([]*C.rz_prompt, len(prompts))
	if options.Pooling == PoolingNone {
		vectors = 0
	}
	for i, prompt := range prompts {
		if list[i], err = prompt.prompt.acquire(); err != nil {
			return nil, err
		}
		defer prompt.prompt.release()
		if options.Pooling == PoolingNone {
			vectors += prompt.Len()
		}
	}
	values, err := sized(m.model, 0, func(handle *C.rz_model, out *float32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_embed_prompts_into(handle, &params, &list[0], C.size_t(len(list)), (*C.float)(out), capacity, n, cancel, e)
	})
	if err != nil {
		return nil, ended(ctx, err)
	}
	return divided(values, vectors), nil
}
