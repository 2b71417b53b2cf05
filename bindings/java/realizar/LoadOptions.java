package realizar;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/** Options of a load. Each method sets one and returns the object; a number out of range throws an
 * IllegalArgumentException that names it. The build writes this file: make header. */
public abstract class LoadOptions<T extends LoadOptions<T>> {
    int device;
    @Nullable Integer gpuLayers;
    ElementType quantize = ElementType.DEFAULT;
    int mixedPrefillTokens;
    @Nullable Integer expertsCopiedFrom;
    @Nullable RealizarRuntime runtime;
    @Nullable Path packedPath;
    @Nullable Path testedPath;
    @Nullable String chatTemplate;
    Model.Load.@Nullable Progress progress;
    @Nullable Cancel cancel;
    int flags;

    LoadOptions() {}

    @SuppressWarnings("unchecked")
    final T self() {
        return (T) this;
    }

    /** Index of a device; 0: chosen by the library. */
    public T device(int device) {
        this.device = Native.whole(device, "device");
        return self();
    }

    /** Deterministic, batch-invariant results: they do not depend on the number of threads, on how a prompt was
     * split into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU the flag costs
     * speed, mostly in prefill. Results still differ between devices, and depend on the number of layers on each
     * device. */
    public T deterministic() {
        flags |= Header.RZ_MODEL_DETERMINISTIC;
        return self();
    }

    /** Uses the weights in place in the memory-mapped file; token generation is several times slower. The process
     * dies if the file is truncated while it is mapped. */
    public T mmap() {
        flags |= Header.RZ_MODEL_MMAP;
        return self();
    }

    /** Loads only metadata, tokenizer and chat template. The file needs no weights; no KV cache can be created. */
    public T textOnly() {
        flags |= Header.RZ_MODEL_TEXT_ONLY;
        return self();
    }

    /** Measures the parts of each step on GPUs, which slows it down. */
    public T profile() {
        flags |= Header.RZ_MODEL_PROFILE;
        return self();
    }

    /** Also loads the multi-token prediction (MTP) head, for speculative decoding. */
    public T mtp() {
        flags |= Header.RZ_MODEL_MTP;
        return self();
    }

    /** Ignores unknown keys and tensors, and counts them. */
    public T allowUnknown() {
        flags |= Header.RZ_MODEL_ALLOW_UNKNOWN;
        return self();
    }

    /** Computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a processor with
     * AMX-BF16. The first load with the flag in a process times a matrix product; the flag takes effect only if
     * BF16 is faster than the default arithmetic with exact integer sums. */
    public T bf16Products() {
        flags |= Header.RZ_MODEL_BF16_PRODUCTS;
        return self();
    }

    /** Number of layers on GPUs; 0: none; not set: as many as fit. */
    public T gpuLayers(int gpuLayers) {
        this.gpuLayers = Native.whole(gpuLayers, "gpuLayers");
        return self();
    }

    /** Element type to which float matrices are quantized during the load. */
    public T quantize(ElementType quantize) {
        this.quantize = Native.given(quantize, "quantize");
        return self();
    }

    /** Maximum prefill tokens in a batch that also decodes; 0: 64. A larger value lowers the time to first token
     * and raises the inter-token latency. */
    public T mixedPrefillTokens(int mixedPrefillTokens) {
        this.mixedPrefillTokens = Native.whole(mixedPrefillTokens, "mixedPrefillTokens");
        return self();
    }

    /** Minimum number of tokens of a step for which experts are copied from the CPU to the GPU and computed there;
     * 0: no step; not set: measured by the load. */
    public T expertsCopiedFrom(int expertsCopiedFrom) {
        this.expertsCopiedFrom = Native.whole(expertsCopiedFrom, "expertsCopiedFrom");
        return self();
    }

    /** The runtime (threads, log, memory limit), which several models may share. */
    public T runtime(@Nullable RealizarRuntime runtime) {
        this.runtime = runtime;
        return self();
    }

    /** File of packed weights, made by the first load and mapped by later ones. */
    public T packedPath(@Nullable Path packedPath) {
        this.packedPath = packedPath;
        return self();
    }

    /** File that records the self-tests that GPUs have passed, so that later processes skip them. */
    public T testedPath(@Nullable Path testedPath) {
        this.testedPath = testedPath;
        return self();
    }

    /** Chat template in Jinja, in place of the model's own. */
    public T chatTemplate(@Nullable String chatTemplate) {
        this.chatTemplate = chatTemplate;
        return self();
    }

    /** Receives the number of bytes loaded so far and in total, on the thread that loads. An exception ends the
     * load, which rethrows it. */
    public T progress(Model.Load.@Nullable Progress progress) {
        this.progress = progress;
        return self();
    }

    /** Stops the load. */
    public T cancel(@Nullable Cancel cancel) {
        this.cancel = cancel;
        return self();
    }

    /** Writes the numbers of the struct. */
    void set(Memory params) {
        Native.set(params, Header.rz_model_params, "device", device);
        Native.setOrNone(params, Header.rz_model_params, "gpu_layers", gpuLayers);
        Native.set(params, Header.rz_model_params, "quantize", quantize.number);
        Native.set(params, Header.rz_model_params, "mixed_prefill_tokens", mixedPrefillTokens);
        Native.setOrNone(params, Header.rz_model_params, "experts_copied_from", expertsCopiedFrom);
        Native.set(params, Header.rz_model_params, "flags", flags);
    }
}
