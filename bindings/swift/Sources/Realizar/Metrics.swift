import CRealizar

extension Device {
    public enum Kind: UInt32, Sendable { case cpu = 1, gpu }

    /// All devices, including unusable ones; the first is the CPU.
    public static func all() throws -> [Device] {
        if let problem = Library.problem { throw problem }
        return try (0..<rz_device_count()).map { i in
            var c = sizedStruct(rz_device_info())
            try call { rz_device_info_get(i + 1, &c, $0) }
            return Device(c)
        }
    }
}

extension Model {
    public func metrics() throws -> Metrics { Metrics(try handle.filled(rz_metrics()) { rz_metrics_get($0, $1, $2) }) }

    public func work(of kind: Device.Kind = .cpu) throws -> Work {
        Work(try handle.filled(rz_backend_metrics()) { rz_backend_metrics_get($0, kind.rawValue, $1, $2) })
    }

    /// Sets the counters to zero.
    public func resetMetrics() { handle.use { rz_metrics_reset($0) } }
}
