package realizar;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Chooses tokens; it has random numbers of its own, so that a seed repeats itself. One call at a time. */
public final class Sampler extends Handle {
    /** What the options say of how tokens are chosen. */
    public Sampler(Options options) {
        super(make(options), Header.rz_sampler_free);
    }

    private static MemorySegment make(Options options) {
        try (Arena arena = Arena.ofConfined()) {
            var params = Native.sized(arena, Header.rz_sampler_params);
            Native.set(params, Header.rz_sampler_params, "temperature", options.temperature);
            Native.set(params, Header.rz_sampler_params, "top_k", options.topK);
            Native.set(params, Header.rz_sampler_params, "top_p", options.topP);
            Native.set(params, Header.rz_sampler_params, "min_p", options.minP);
            Native.set(params, Header.rz_sampler_params, "repeat_penalty", options.repeatPenalty);
            Native.set(params, Header.rz_sampler_params, "presence_penalty", options.presencePenalty);
            Native.set(params, Header.rz_sampler_params, "frequency_penalty", options.frequencyPenalty);
            Native.set(params, Header.rz_sampler_params, "penalty_window", options.penaltyWindow);
            Native.set(params, Header.rz_sampler_params, "flags", options.temperatureFirst ? Header.RZ_SAMPLER_TEMPERATURE_FIRST : 0);
            Native.set(params, Header.rz_sampler_params, "seed", options.seed);
            MemorySegment biases = arena.allocate(Header.rz_logit_bias, options.logitBias.size());
            int i = 0;
            for (var bias : options.logitBias.entrySet()) {
                biases.setAtIndex(JAVA_INT, 2 * i, bias.getKey());
                biases.setAtIndex(JAVA_FLOAT, 2 * i++ + 1, bias.getValue());
            }
            Native.set(params, Header.rz_sampler_params, "biases", biases);
            Native.set(params, Header.rz_sampler_params, "n_biases", (long) options.logitBias.size());
            return Native.made(arena, out -> e -> (int) Header.rz_sampler_new.invokeExact(params, out, e));
        }
    }

    /** Lets it choose only what continues a text of the grammar, from its start; null: anything. */
    public void setGrammar(Grammar grammar) {
        call((arena, sampler) -> use(grammar, form -> Native.check(arena, e -> (int) Header.rz_sampler_grammar_set.invokeExact(sampler, form, e))));
    }
}
