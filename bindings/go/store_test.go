// The tests of stores.
package realizar

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestConversationsShareAStore(t *testing.T) {
	model, other := load(t, chatModel(t, thinkingTemplate)), load(t, chatModel(t, thinkingTemplate))
	store, err := model.NewStore(&StoreOptions{MinTokens: 30})
	must(t, err)
	options := ConversationOptions{System: strings.Repeat("Be brief. ", 9)}
	alone := newConversation(t, model, options)
	ask(t, alone, "Hi", &ReplyOptions{MaxTokens: 9})
	options.Store = store
	for i := range 2 {
		c := newConversation(t, model, options)
		ask(t, c, "Hi", &ReplyOptions{MaxTokens: 9})
		if reused := info(t, c).Reused; !reflect.DeepEqual(messages(t, c), messages(t, alone)) || (reused > 30) != (i == 1) {
			t.Error(i, reused, messages(t, c))
		}
	}
	must(t, store.Clear())
	now, err := store.Info()
	if must(t, err); now.Entries != 0 || now.MemoryBytes != 0 || now.Hits != 1 || now.Misses != 1 || now.ReusedTokens <= 30 {
		t.Errorf("%+v", now)
	}
	if _, err := other.NewConversation(&options); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
	store.Close()
	if _, err := model.NewConversation(&options); err != ErrClosed {
		t.Error(err)
	}
}

func TestSessionsShareAStore(t *testing.T) {
	model, folder, options := load(t, storyModel), t.TempDir(), &SessionOptions{Capacity: 128}
	tokens := tokensOf(t, newSession(t, model, 128), prompt+story[:90])
	stored := func(min int) *Store {
		store, err := model.NewStore(&StoreOptions{MinTokens: min, Path: folder})
		must(t, err)
		t.Cleanup(func() { store.Close() })
		return store
	}
	take := func(store *Store, want int) uint32 {
		session, err := store.Take(tokens, options)
		must(t, err)
		defer session.Close()
		if session.Len() != want {
			t.Error(session.Len(), want)
		}
		must(t, session.Prefill(t.Context(), tokens[want:]), store.Put(session))
		token, err := session.Sample(nil)
		must(t, err)
		return token
	}
	store := stored(8)
	if first, again := take(store, 0), take(store, len(tokens)-1); first != again {
		t.Error(first, again)
	}
	if err := store.Put(newSession(t, load(t, storyModel), 64)); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
	// What a closed store knew is in the folder.
	store.Close()
	if err := store.Clear(); err != ErrClosed {
		t.Error(err)
	}
	store = stored(8)
	now, err := store.Info()
	if must(t, err); now.Files != 1 || now.DiskBytes == 0 {
		t.Errorf("%+v", now)
	}
	take(store, len(tokens)-1)
	take(stored(len(tokens)), 0)
	must(t, store.Clear())
	take(store, 0)
	if _, err := model.NewStore(&StoreOptions{Path: "a\x00b"}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	// The model is kept.
	model.Close()
	take(store, len(tokens)-1)
}
