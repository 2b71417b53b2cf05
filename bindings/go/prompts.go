package realizar

import (
	"context"
	"unsafe"
)

// LoadEncoderFrom is [Model.LoadEncoder] for sources, as [LoadFrom] takes them.
func (m *Model) LoadEncoderFrom(ctx context.Context, sources []Source, options *EncoderOptions) (encoder *Encoder, err error) {
	err = withSources(sources, func(raw *rz_source, n uintptr) error {
		encoder, err = m.withEncoder(ctx, "", options, func(_ *byte, params *rz_encoder_params) (*Encoder, error) {
			return made(m, func(model *rz_model, out **rz_encoder, e *rz_error) int32 {
				return lib.rz_encoder_load_from(model, raw, n, params, out, e)
			}, lib.rz_encoder_free,
				func(encoder *owned[*rz_encoder]) *Encoder { return &Encoder{encoder} })
		})
		return err
	})
	return encoder, err
}

// AddMedia is [Conversation.AddMessages] for messages whose content parts name media by index, as in
// [Model.NewChatPrompt]: {"type": "image", "media": 0}. The conversation keeps the media alive. If the chat template
// leaves out an image, the reply fails with [ErrUnsupported].
func (c *Conversation) AddMedia(media []*Media, messages ...any) error {
	text, err := marshal(append([]any{}, messages...))
	if err != nil {
		return err
	}
	list, release, err := handlesOf[*rz_media](media, "media")
	if err != nil {
		return err
	}
	defer release()
	return c.change(func(handle *rz_conversation, e *rz_error) int32 {
		return lib.rz_conversation_add(handle, unsafe.SliceData(text), uintptr(len(text)),
			unsafe.SliceData(list), uintptr(len(list)), e)
	})
}

// Media returns media of the conversation by index in content parts of [Conversation.Messages].
func (c *Conversation) Media(number int) (*Media, error) {
	n, err := whole(number, "number")
	if err != nil {
		return nil, err
	}
	return makeMedia(c, func(handle *rz_conversation, out **rz_media, e *rz_error) int32 {
		return lib.rz_conversation_media(handle, n, out, e)
	})
}

// TakePrompt is [Store.Take] for a prompt with media: append the rest with [Session.PrefillPrompt], from session.Len().
func (s *Store) TakePrompt(prompt *Prompt, options *SessionOptions) (*Session, error) {
	store, release, err := required[*rz_store](s, "the store")
	if err != nil {
		return nil, err
	}
	defer release()
	object, releasePrompt, err := required[*rz_prompt](prompt, "prompt")
	if err != nil {
		return nil, err
	}
	defer releasePrompt()
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return makeSession(s.model, func(_ *rz_model, cache **rz_cache, e *rz_error) int32 {
		var common uint32
		return lib.rz_store_take_prompt(store, object, &params, nil, cache, &common, e)
	})
}
