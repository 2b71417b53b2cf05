package realizar;

/** A call of the library failed. One that was cancelled is a {@link java.util.concurrent.CancellationException}
 *  instead. */
public final class RealizarException extends RuntimeException {
    /** Outcomes of calls that failed, in the order of their numbers from -1 down. */
    public enum Status {
        INVALID_ARGUMENT, BUSY, OUT_OF_MEMORY, DEVICE_OUT_OF_MEMORY, LIMIT, IO, FORMAT, UNSUPPORTED, VERSION, CANCELLED, DEADLINE,
        CONTEXT_FULL, BUFFER_TOO_SMALL, DEVICE_UNAVAILABLE, DEVICE_LOST, MISMATCH, PANIC, POISONED, NOT_FOUND, NOT_READY,
        RESOURCES, UNKNOWN;

        static Status of(int code) {
            return values()[Math.min(-1 - code, UNKNOWN.ordinal())];
        }
    }

    private final Status status;
    private final String name;
    private final int systemCode;
    private final long needed;

    RealizarException(int code, String message, int systemCode) {
        this(code, message, systemCode, 0);
    }

    RealizarException(int code, String message, int systemCode, long needed) {
        super(message);
        status = Status.of(code);
        name = Native.PLATFORM.text(Header.rz_status_name(code));
        this.systemCode = systemCode;
        this.needed = needed;
    }

    /** The name of the status in the library, such as "RZ_ERR_FORMAT". */
    public String name() {
        return name;
    }

    /** The number of the system's error, else 0. */
    public int systemCode() {
        return systemCode;
    }

    /** For {@link Status#CONTEXT_FULL} the capacity in tokens that would have been enough, else 0. */
    public long needed() {
        return needed;
    }

    public Status status() {
        return status;
    }
}
