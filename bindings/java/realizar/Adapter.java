package realizar;

import java.lang.foreign.MemorySegment;

/** A low-rank adapter of a model. Immutable: any number of sessions may use it at once. */
public final class Adapter extends Handle {
    Adapter(MemorySegment pointer) {
        super(pointer, Header.rz_adapter_free);
    }
}
