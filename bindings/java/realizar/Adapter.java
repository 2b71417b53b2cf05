package realizar;

/** A LoRA adapter of a model. Immutable: any number of sessions may use it at once. */
public final class Adapter extends Handle {
    Adapter(Memory pointer) {
        super(pointer, Header::rz_adapter_free);
    }
}
