package realizar;

import java.util.regex.Pattern;

/** A call of the library failed. One that was cancelled is a {@link java.util.concurrent.CancellationException}
 *  instead. The build writes this file: make header. */
public final class RealizarException extends RuntimeException {
    /** Outcomes of calls that failed. */
    public enum Status {
        /** An argument is missing, out of range, not UTF-8, or otherwise never valid. */
        INVALID_ARGUMENT(Header.RZ_ERR_INVALID_ARGUMENT),
        /** Another call is using the handle. */
        BUSY(Header.RZ_ERR_BUSY),
        /** Host memory is exhausted. */
        OUT_OF_MEMORY(Header.RZ_ERR_OUT_OF_MEMORY),
        /** Device memory is exhausted. */
        DEVICE_OUT_OF_MEMORY(Header.RZ_ERR_DEVICE_OUT_OF_MEMORY),
        /** The call would exceed a limit set by the caller, or a bound of this library. */
        LIMIT(Header.RZ_ERR_LIMIT),
        /** A file could not be read or written. */
        IO(Header.RZ_ERR_IO),
        /** A file is damaged, or the weights of a model make a result NaN or infinite. */
        FORMAT(Header.RZ_ERR_FORMAT),
        /** The request is valid, but this library does not implement it. */
        UNSUPPORTED(Header.RZ_ERR_UNSUPPORTED),
        /** A field or a flag needs a newer library. */
        VERSION(Header.RZ_ERR_VERSION),
        /** A cancel was fired, or a callback asked to stop. */
        CANCELLED(Header.RZ_ERR_CANCELLED),
        /** The deadline has passed. */
        DEADLINE(Header.RZ_ERR_DEADLINE),
        /** The tokens do not fit into the context window (the capacity of the cache). */
        CONTEXT_FULL(Header.RZ_ERR_CONTEXT_FULL),
        /** The buffer is too small. */
        BUFFER_TOO_SMALL(Header.RZ_ERR_BUFFER_TOO_SMALL),
        /** The device cannot be used; the message says why. */
        DEVICE_UNAVAILABLE(Header.RZ_ERR_DEVICE_UNAVAILABLE),
        /** The device failed, or did not answer for 60 seconds; its work is lost. The model is unusable, including
         * its layers on other devices. The CPU and other models continue to work, on the same device too, because
         * each model has its own context. According to NVIDIA's documentation some kernel faults, such as error
         * 700 (illegal address), make CUDA unusable in the whole process: then every model on a GPU returns this
         * status, and only a new process can use the devices again. */
        DEVICE_LOST(Header.RZ_ERR_DEVICE_LOST),
        /** One call combines objects of different models. */
        MISMATCH(Header.RZ_ERR_MISMATCH),
        /** Caught bug of this library. Please report the message. */
        PANIC(Header.RZ_ERR_PANIC),
        /** An earlier call on this object ended with an internal error, whose message this error repeats. Close the
         * object. */
        POISONED(Header.RZ_ERR_POISONED),
        /** Not found: a key, a device, an image, audio or video of a conversation, or an index beyond the last
         * entry. */
        NOT_FOUND(Header.RZ_ERR_NOT_FOUND),
        /** Another call must come first: there are no logits before a prefill, and no rows of media before their
         * encoding is done. */
        NOT_READY(Header.RZ_ERR_NOT_READY),
        /** The system cannot create a thread or another resource; the same call may succeed later. */
        RESOURCES(Header.RZ_ERR_RESOURCES),
        /** A status that this package does not know. */
        UNKNOWN(0);

        private final int code;

        Status(int code) {
            this.code = code;
        }

        static Status of(int code) {
            for (Status status : values()) if (status.code == code) return status;
            return UNKNOWN;
        }
    }

    private static final Pattern FIELD = Pattern.compile("\\brz_[a-z]+_params\\.([a-z]+(?:_[a-z]+)*)");

    /** The reason of the failure. */
    private final Status status;
    /** The name of the status in the library. */
    private final String name;
    /** The number of the system's error, else 0. */
    private final int systemCode;
    /** The capacity that would have been enough, else 0. */
    private final long needed;

    RealizarException(int code, String message, int systemCode) {
        this(code, message, systemCode, 0);
    }

    RealizarException(int code, String message, int systemCode, long needed) {
        super(named(message));
        status = Status.of(code);
        name = Native.PLATFORM.text(Header.rz_status_name(code));
        this.systemCode = systemCode;
        this.needed = needed;
    }

    /** A message of the library, in which fields of its structs have the names of options. */
    private static String named(String message) {
        var all = new StringBuilder();
        var fields = FIELD.matcher(message);
        int at = 0;
        for (; fields.find(); at = fields.end()) {
            all.append(message, at, fields.start());
            String[] words = fields.group(1).replace("biases", "logit_bias").split("_");
            all.append(words[0]);
            for (int i = 1; i < words.length; i++) all.append(Character.toUpperCase(words[i].charAt(0))).append(words[i].substring(1));
        }
        return all.append(message.substring(at)).toString();
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

    /** The outcome, of which UNKNOWN stands for those that this class has no name of. */
    public Status status() {
        return status;
    }
}
