package realizar;

import java.util.List;

/** A token and the logarithm of its probability. */
public record Logprob(int token, float logprob) {
    /** A token that was made, and the likeliest ones in its place, the likeliest first. */
    public record Made(Logprob made, List<Logprob> likeliest) {}
}
