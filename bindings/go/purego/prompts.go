package realizar

import (
	"context"
	"unsafe"
)

// LoadEncoderFrom is [Model.LoadEncoder] for files that are bytes in memory, each under its name, as [LoadFrom] takes
// them.
func (m *Model) LoadEncoderFrom(ctx context.Context, files map[string][]byte, options *EncoderOptions) (encoder *Encoder, err error) {
	sources, unpin, err := sourcesOf(files)
	if err != nil {
		return nil, err
	}
	defer unpin()
	err = withEncoder(ctx, "", options, func(_ *byte, params *rz_encoder_params) error {
		encoder, err = made(m.model, func(model uintptr, out *uintptr, e *rz_error) int32 {
			return c.rz_encoder_load_from(model, &sources[0], uintptr(len(files)), params, out, e)
		}, c.rz_encoder_free, func(h *handle) *Encoder { return &Encoder{h} })
		return err
	})
	return encoder, err
}

// acquireMedia returns the handles of media, and a function that ends their use.
func acquireMedia(media []*Media) (list []uintptr, release func(), err error) {
	var held []*Media
	release = func() {
		for _, medium := range held {
			medium.media.release()
		}
	}
	for _, medium := range media {
		object, err := medium.media.acquire()
		if err != nil {
			release()
			return nil, nil, err
		}
		list, held = append(list, object), append(held, medium)
	}
	return list, release, nil
}

// AddMedia is [Conversation.AddMessages] for messages whose contents have parts with the numbers of media, as
// [Model.NewChatPrompt] takes them: {"type": "image", "media": 0}. The conversation keeps the media alive. A picture
// that the model's template leaves out is [ErrUnsupported] of the reply.
func (t *Conversation) AddMedia(media []*Media, messages ...any) error {
	text, err := marshal(append([]any{}, messages...))
	if err != nil {
		return err
	}
	list, release, err := acquireMedia(media)
	if err != nil {
		return err
	}
	defer release()
	return t.change(func(object uintptr, e *rz_error) int32 {
		return c.rz_conversation_add(object, unsafe.SliceData(text), uintptr(len(text)), unsafe.SliceData(list), uintptr(len(list)), e)
	})
}

// Media is a medium of the conversation by its number in the parts of [Conversation.Messages].
func (t *Conversation) Media(number int) (*Media, error) {
	n, err := whole(number, "number")
	if err != nil {
		return nil, err
	}
	return made(t.conversation, func(object uintptr, out *uintptr, e *rz_error) int32 {
		return c.rz_conversation_media(object, n, out, e)
	}, c.rz_media_free, func(h *handle) *Media { return &Media{h, context.Background()} })
}

// TakePrompt is [Store.Take] for a prompt: [Session.PrefillPrompt] appends the rest, from token session.Len() on.
func (s *Store) TakePrompt(prompt *Prompt, options *SessionOptions) (*Session, error) {
	object, err := prompt.prompt.acquire()
	if err != nil {
		return nil, err
	}
	defer prompt.prompt.release()
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return s.model.session(s.store, func(store uintptr, out *uintptr, e *rz_error) int32 {
		var common uint32
		return c.rz_store_take_prompt(store, object, &params, 0, out, &common, e)
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
	vectors, list := len(prompts), make([]uintptr, len(prompts))
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
	values, err := sized(m.model, 0, func(model uintptr, out *float32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_embed_prompts_into(model, &params, &list[0], uintptr(len(list)), out, capacity, n, cancel, e)
	})
	if err != nil {
		return nil, ended(ctx, err)
	}
	return divided(values, vectors), nil
}
