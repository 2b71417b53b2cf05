package realizar;

/** An object was used by two calls at once, of which this one is the second; it has changed nothing. Also thrown by
 * {@link AutoCloseable#close} in a callback of a call that uses the object, and for a {@link Session} whose {@link
 * Generation} is not closed. */
public final class BusyException extends IllegalStateException {
    BusyException(String message) {
        super(message);
    }
}
