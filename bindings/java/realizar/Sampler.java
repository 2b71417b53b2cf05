package realizar;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Chooses tokens; it has random numbers of its own, so that a seed repeats itself. One call at a time. */
public final class Sampler extends Handle {
    private static final int TEMPERATURE_FIRST = 1;

    /** What the options say of how tokens are chosen. */
    public Sampler(Options options) {
        super(make(options), Native.SAMPLER_FREE);
    }

    private static MemorySegment make(Options options) {
        try (Arena arena = Arena.ofConfined()) {
            var params = Native.sized(arena, Native.SAMPLER_PARAMS);
            Native.set(params, Native.SAMPLER_PARAMS, "temperature", options.temperature);
            Native.set(params, Native.SAMPLER_PARAMS, "top_k", options.topK);
            Native.set(params, Native.SAMPLER_PARAMS, "top_p", options.topP);
            Native.set(params, Native.SAMPLER_PARAMS, "min_p", options.minP);
            Native.set(params, Native.SAMPLER_PARAMS, "repeat_penalty", options.repeatPenalty);
            Native.set(params, Native.SAMPLER_PARAMS, "presence_penalty", options.presencePenalty);
            Native.set(params, Native.SAMPLER_PARAMS, "frequency_penalty", options.frequencyPenalty);
            Native.set(params, Native.SAMPLER_PARAMS, "penalty_window", options.penaltyWindow);
            Native.set(params, Native.SAMPLER_PARAMS, "flags", options.temperatureFirst ? TEMPERATURE_FIRST : 0);
            Native.set(params, Native.SAMPLER_PARAMS, "seed", options.seed);
            MemorySegment biases = arena.allocate(Native.LOGIT_BIAS, options.logitBias.size());
            int i = 0;
            for (var bias : options.logitBias.entrySet()) {
                biases.setAtIndex(JAVA_INT, 2 * i, bias.getKey());
                biases.setAtIndex(JAVA_FLOAT, 2 * i++ + 1, bias.getValue());
            }
            Native.set(params, Native.SAMPLER_PARAMS, "biases", biases);
            Native.set(params, Native.SAMPLER_PARAMS, "n_biases", (long) options.logitBias.size());
            return Native.made(arena, out -> e -> (int) Native.SAMPLER_NEW.invokeExact(params, out, e));
        }
    }

    /** Lets it choose only what continues a text of the grammar, from its start; null: anything. */
    public void setGrammar(Grammar grammar) {
        call((arena, sampler) -> use(grammar, form -> Native.check(arena, e -> (int) Native.SAMPLER_GRAMMAR_SET.invokeExact(sampler, form, e))));
    }
}
