package realizar;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** Chooses tokens. A sampler has a random generator of its own, so that the same seed gives the same tokens. One call
 * at a time. */
public final class Sampler extends Handle {
    /** A sampler of the sampling options among {@code options}. */
    public Sampler(Options options) {
        super(make(options), Header::rz_sampler_free);
    }

    private static Memory make(Options options) {
        Native.given(options, "options");
        try (Arena arena = new Arena()) {
            Memory params = params(arena, options);
            return Native.made(arena, out -> e -> Header.rz_sampler_new(params, out, e));
        }
    }

    private static Memory sequences(Arena arena, List<int[]> all, String name) {
        long size = Header.rz_token_sequence.size;
        Memory sequences = arena.allocate(size * all.size());
        for (int i = 0; i < all.size(); i++) {
            var sequence = sequences.part(i * size, size);
            Native.set(sequence, Header.rz_token_sequence, "tokens", Native.ints(arena, all.get(i), name + "[" + i + "]"));
            Native.set(sequence, Header.rz_token_sequence, "n_tokens", (long) all.get(i).length);
        }
        return sequences;
    }

    static Memory params(Arena arena, Options options) {
        var params = Native.sized(arena, Header.rz_sampler_params);
        options.set(params);
        Memory biases = arena.allocate((long) Header.rz_logit_bias.size * options.logitBias.size());
        int i = 0;
        for (var bias : options.logitBias.entrySet()) {
            biases.set(8 * i, bias.getKey());
            biases.set(8 * i++ + 4, (float) bias.getValue());
        }
        Native.set(params, Header.rz_sampler_params, "biases", biases);
        Native.set(params, Header.rz_sampler_params, "n_biases", (long) options.logitBias.size());
        Native.set(params, Header.rz_sampler_params, "dry_breakers", sequences(arena, options.dryBreakers, "dryBreakers"));
        Native.set(params, Header.rz_sampler_params, "n_dry_breakers", (long) options.dryBreakers.size());
        Native.set(params, Header.rz_sampler_params, "banned_sequences", sequences(arena, options.bannedSequences, "bannedSequences"));
        Native.set(params, Header.rz_sampler_params, "n_banned_sequences", (long) options.bannedSequences.size());
        int[] order = options.order.stream().mapToInt(filter -> filter.number).toArray();
        Native.set(params, Header.rz_sampler_params, "order", Native.ints(arena, order, "order"));
        Native.set(params, Header.rz_sampler_params, "n_order", (long) order.length);
        return params;
    }

    /** Restricts tokens to texts of the grammar, from its start (constrained decoding); null: no restriction. */
    public void setGrammar(@Nullable Grammar grammar) {
        call((arena, sampler) -> use(grammar, form -> Native.check(arena, e -> Header.rz_sampler_grammar_set(sampler, form, e))));
    }
}
