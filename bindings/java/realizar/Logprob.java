package realizar;

import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** A token and its log probability. */
public record Logprob(int token, float logprob) {
    /** A generated token, and the most likely tokens at its place in descending order. */
    public record Made(Logprob made, List<Logprob> likeliest) {}

    /** A function that writes rows of tokens and their logarithms. */
    interface Read {
        int apply(Memory tokens, Memory logprobs, long capacity, Memory written, Memory error);
    }

    /** The rows that there are, of {@code row} tokens each. */
    static List<Made> rows(Arena arena, int row, Read read) {
        var values = new Memory[1];
        int[] tokens = Native.filled(arena, 4, 64, (out, capacity, written, e) -> {
            values[0] = arena.allocate(4 * Math.max(capacity, 1));
            return read.apply(out, values[0], capacity, written, e);
        }).ints();
        var all = IntStream.range(0, tokens.length)
            .mapToObj(i -> new Logprob(tokens[i], values[0].getFloat(4 * i))).collect(Collectors.toList());
        return IntStream.range(0, tokens.length / row)
            .mapToObj(i -> new Made(all.get(i * row), all.subList(i * row + 1, (i + 1) * row))).collect(Collectors.toList());
    }
}
