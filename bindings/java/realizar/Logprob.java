package realizar;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.stream.IntStream;

/** A token and the logarithm of its probability. */
public record Logprob(int token, float logprob) {
    /** A token that was made, and the likeliest ones in its place, the likeliest first. */
    public record Made(Logprob made, List<Logprob> likeliest) {}

    /** A function that writes rows of tokens and their logarithms. */
    interface Read {
        int apply(MemorySegment tokens, MemorySegment logprobs, long capacity, MemorySegment written, MemorySegment error)
            throws Throwable;
    }

    /** The rows that there are, of {@code row} tokens each. */
    static List<Made> rows(Arena arena, int row, Read read) {
        var values = new MemorySegment[1];
        int[] tokens = Native.filled(arena, 4, 64, (out, capacity, written, e) -> {
            values[0] = arena.allocate(JAVA_FLOAT, Math.max(capacity, 1));
            return read.apply(out, values[0], capacity, written, e);
        }).toArray(JAVA_INT);
        var all = IntStream.range(0, tokens.length)
            .mapToObj(i -> new Logprob(tokens[i], values[0].getAtIndex(JAVA_FLOAT, i))).toList();
        return IntStream.range(0, tokens.length / row)
            .mapToObj(i -> new Made(all.get(i * row), all.subList(i * row + 1, (i + 1) * row))).toList();
    }
}
