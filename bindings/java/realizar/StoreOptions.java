package realizar;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/** Options of a store. Each method sets one and returns the object; a number out of range throws an
 * IllegalArgumentException that names it. The build writes this file: make header. */
public abstract class StoreOptions<T extends StoreOptions<T>> {
    int minTokens;
    long memoryLimit;
    int maxEntries;
    long diskLimit;
    @Nullable Path path;

    StoreOptions() {}

    @SuppressWarnings("unchecked")
    final T self() {
        return (T) this;
    }

    /** Minimum length in tokens of prefixes to keep and to look up; 0: 64. */
    public T minTokens(int minTokens) {
        this.minTokens = Native.whole(minTokens, "minTokens");
        return self();
    }

    /** Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. Memory that a
     * prefix shares with a shorter one counts once. Prefixes that wait to be written to the folder take additional
     * memory: up to a quarter of the limit, or one larger prefix. */
    public T memoryLimit(long memoryLimit) {
        this.memoryLimit = Native.whole(memoryLimit, "memoryLimit");
        return self();
    }

    /** Maximum number of prefixes in memory; 0: 1,024. */
    public T maxEntries(int maxEntries) {
        this.maxEntries = Native.whole(maxEntries, "maxEntries");
        return self();
    }

    /** Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0: a tenth of the
     * free disk space (the folder's own files count as free), at most 16 GiB. The limit includes files that are
     * being written. */
    public T diskLimit(long diskLimit) {
        this.diskLimit = Native.whole(diskLimit, "diskLimit");
        return self();
    }

    /** Folder for files that outlive the process; it is created if it is missing. */
    public T path(@Nullable Path path) {
        this.path = path;
        return self();
    }

    /** Writes the numbers of the struct. */
    void set(Memory params) {
        Native.set(params, Header.rz_store_params, "min_tokens", minTokens);
        Native.set(params, Header.rz_store_params, "memory_limit", memoryLimit);
        Native.set(params, Header.rz_store_params, "max_entries", (long) maxEntries);
        Native.set(params, Header.rz_store_params, "disk_limit", diskLimit);
    }
}
