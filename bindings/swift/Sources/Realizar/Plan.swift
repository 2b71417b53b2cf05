import CRealizar

extension Plan {
    /// What lies on one GPU.
    public struct OnDevice: Sendable, Hashable {
        public let device, layers: Int
        public let weights, cache, scratch, total: UInt64
    }

    init(_ c: rz_model_plan, _ parts: ArraySlice<rz_model_plan_device>) {
        self.init(c)
        devices = parts.map { part in
            OnDevice(
                device: Int(part.device), layers: Int(part.n_layers), weights: part.weights, cache: part.cache, scratch: part.scratch,
                total: part.total)
        }
        expertLayersHost = Int(c.experts_host_first)..<Int(c.experts_host_first + c.experts_host_layers)
    }
}
