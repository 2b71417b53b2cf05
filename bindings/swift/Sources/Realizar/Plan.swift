import CRealizar

/// Memory that a model and its sessions take, in bytes.
public struct Plan: Sendable {
    /// What lies on one GPU.
    public struct OnDevice: Sendable, Hashable {
        public let device, layers: Int
        public let weights, cache, scratch, total: UInt64
    }

    public let gpuLayers: Int
    public let weightsHost, weightsDevice: UInt64
    /// Of one session with room for all its tokens.
    public let cacheHost, cacheDevice: UInt64
    /// What one more token of capacity adds to a session.
    public let cacheToken: UInt64
    public let scratchHost, scratchDevice: UInt64
    /// The most that is held while the model is loaded.
    public let loadPeakHost: UInt64
    public let totalHost, totalDevice: UInt64
    /// Parts of the weights: experts of layers on GPUs.
    public let expertsHost, expertsDevice: UInt64
    /// Layers from the first to the last whose experts of these are on the CPU.
    public let expertLayersHost: Range<Int>
    /// What lies on each GPU that has layers.
    public let devices: [OnDevice]

    init(_ c: rz_model_plan, _ parts: ArraySlice<rz_model_plan_device>) {
        devices = parts.map { part in
            OnDevice(
                device: Int(part.device), layers: Int(part.n_layers), weights: part.weights, cache: part.cache, scratch: part.scratch,
                total: part.total)
        }
        gpuLayers = Int(c.gpu_layers)
        weightsHost = c.weights_host
        weightsDevice = c.weights_device
        cacheHost = c.cache_host
        cacheDevice = c.cache_device
        cacheToken = c.cache_token
        scratchHost = c.scratch_host
        scratchDevice = c.scratch_device
        loadPeakHost = c.load_peak_host
        totalHost = c.total_host
        totalDevice = c.total_device
        expertsHost = c.experts_host
        expertsDevice = c.experts_device
        expertLayersHost = Int(c.experts_host_first)..<Int(c.experts_host_first + c.experts_host_layers)
    }
}
