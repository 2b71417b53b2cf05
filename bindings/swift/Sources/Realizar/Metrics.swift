import CRealizar

/// Number and time of the calls of one kind.
public struct Phase: Sendable, Hashable {
    public let count, nanoseconds: UInt64
    init(_ c: rz_phase_metrics) {
        count = c.count
        nanoseconds = c.sum_ns
    }
}

/// The phases of a model's work since it was loaded. GPU phases are counted only with `LoadOptions.profile`.
public struct Metrics: Sendable {
    public let load, tokenize, prefill, decode, sample, detokenize, encode: Phase
    public let gpuProducts, gpuAttention, gpuExperts, gpuHead, gpuOther: Phase
}

/// Counters of one kind of device since the model was loaded; times in nanoseconds.
public struct Work: Sendable {
    public let dispatches, bytes, latencySum, latencyMin, latencyMax: UInt64
    public let latencyMean, latencyVariance: Double
    /// Latencies under 1 microsecond, from 1 to below 2, from 2 to below 4, and so on.
    public let latencyHistogram: [UInt64]
}

/// A device, with the reason if it cannot be used.
public struct Device: Sendable {
    public enum Kind: UInt32, Sendable { case cpu = 1, gpu }

    public let index: Int
    /// Identifier that is equal in every process on this machine: "cpu", or the UUID of a GPU; empty if unknown.
    public let id: String
    public let name, isa: String
    public let kind: Kind?
    public let memoryTotal, memoryFree: UInt64
    public let unavailable: String

    /// All devices, including unusable ones; the first is the CPU.
    public static func all() throws -> [Device] {
        if let problem = Library.problem { throw problem }
        return try (0..<rz_device_count()).map { i in
            var c = sizedStruct(rz_device_info(), \.struct_size)
            try call { rz_device_info_get(i + 1, &c, $0) }
            return Device(
                index: Int(c.index), id: text(c.id), name: text(c.name), isa: text(c.isa), kind: Kind(rawValue: c.kind), memoryTotal: c.memory_total,
                memoryFree: c.memory_free, unavailable: text(c.unavailable))
        }
    }
}

extension Model {
    public func metrics() throws -> Metrics {
        var c = sizedStruct(rz_metrics(), \.struct_size)
        try handle.use { model in try call { rz_metrics_get(model, &c, $0) } }
        return Metrics(
            load: Phase(c.load), tokenize: Phase(c.tokenize), prefill: Phase(c.prefill), decode: Phase(c.decode),
            sample: Phase(c.sample), detokenize: Phase(c.detokenize), encode: Phase(c.encode), gpuProducts: Phase(c.gpu_products),
            gpuAttention: Phase(c.gpu_attention), gpuExperts: Phase(c.gpu_experts), gpuHead: Phase(c.gpu_head),
            gpuOther: Phase(c.gpu_other))
    }

    public func work(of kind: Device.Kind = .cpu) throws -> Work {
        var c = sizedStruct(rz_backend_metrics(), \.struct_size)
        try handle.use { model in try call { rz_backend_metrics_get(model, kind.rawValue, &c, $0) } }
        return Work(
            dispatches: c.dispatches, bytes: c.bytes, latencySum: c.latency_sum_ns, latencyMin: c.latency_min_ns,
            latencyMax: c.latency_max_ns, latencyMean: c.latency_mean_ns, latencyVariance: c.latency_variance_ns2,
            latencyHistogram: numbers(c.latency_histogram, UInt64.self))
    }

    /// Sets the counters to zero.
    public func resetMetrics() { handle.use { rz_metrics_reset($0) } }
}
