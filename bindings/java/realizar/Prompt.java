package realizar;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** A sequence of tokens and media. Any number of threads may use it at once. */
public final class Prompt extends Handle {
    /** Stands for a row of a media item in the tokens of sessions and prompts. */
    public static final int MEDIA_TOKEN = Header.RZ_TOKEN_MEDIA;

    /** Parts of a prompt, in their order. Methods append one and return the object. */
    public static final class Parts {
        private record One(int[] tokens, @Nullable Media media) {}

        private final List<One> all = new ArrayList<>();
        private boolean bare;

        /** No parts. */
        public Parts() {}

        /** Tokens. */
        public Parts tokens(int... tokens) {
            all.add(new One(Native.wholes(tokens, "tokens").clone(), null));
            return this;
        }

        /** A media item, which the prompt keeps alive. */
        public Parts media(Media media) {
            all.add(new One(new int[0], Native.given(media, "media")));
            return this;
        }

        /** Leaves out the model's tokens around and between the rows of media. */
        public Parts bare() {
            bare = true;
            return this;
        }
    }

    private Prompt(Memory pointer) {
        super(pointer, Header::rz_prompt_free);
    }

    /** A prompt of parts. */
    public static Prompt of(Model model, Parts parts) {
        Native.given(model, "model");
        Native.given(parts, "parts");
        return model.call((arena, pointer) -> useAll(arena, parts.all.stream().map(Parts.One::media).collect(Collectors.toList()), media -> {
            var layout = Header.rz_part;
            int n = parts.all.size();
            Memory all = arena.allocate((long) layout.size * n);
            for (int i = 0; i < n; i++) {
                Memory part = all.part((long) layout.size * i, layout.size);
                int[] tokens = parts.all.get(i).tokens();
                Native.set(part, layout, "tokens", Native.ints(arena, tokens, "tokens"));
                Native.set(part, layout, "n_tokens", (long) tokens.length);
                Native.set(part, layout, "media", media.getPointer(Memory.POINTER * i));
            }
            int flags = parts.bare ? Header.RZ_PROMPT_BARE : 0;
            return new Prompt(Native.made(arena, out -> e -> Header.rz_prompt_new(pointer, all, n, flags, out, e)));
        }));
    }

    /** A prompt of messages, up to where the reply begins. Their content may be a list of parts with numbers of {@code
     * media}: {"type": "image", "media": 0}. */
    public static Prompt of(Model model, Transcript transcript, Media... media) {
        return of(model, Native.given(transcript, "transcript").json(), media);
    }

    /** The same for a conversation in JSON. */
    public static Prompt of(Model model, String json, Media... media) {
        Native.given(json, "json");
        var given = Native.all("media", media);
        return Native.given(model, "model").call((arena, pointer) -> useAll(arena, given, all -> {
            Memory bytes = Native.bytes(arena, json, "json");
            return new Prompt(Cancel.call(null, fired -> Native.made(arena, out -> e -> Header.rz_prompt_from_chat(pointer, bytes, bytes.size,
                Header.RZ_CHAT_ADD_GENERATION_PROMPT, all, given.size(), fired, out, e))));
        }));
    }

    /** Number of tokens, each row of a media item counted as one. */
    public int length() {
        return Math.toIntExact(use(Header::rz_prompt_len));
    }

    /** The tokens, with {@link #MEDIA_TOKEN} for each row of a media item. */
    public int[] tokens() {
        return call((arena, prompt) -> Native.filled(arena, 4, length(), (out, capacity, written, e) ->
            Header.rz_prompt_tokens_into(prompt, out, capacity, written, e)).ints());
    }
}
