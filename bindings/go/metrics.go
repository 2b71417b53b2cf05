package realizar

// Metrics reads the counters of the model.
func (m *Model) Metrics() (Metrics, error) {
	return described(m, lib.rz_metrics_get, (*rz_metrics).value)
}

// DeviceMetrics reads the counters of one kind of device.
func (m *Model) DeviceMetrics(kind DeviceKind) (DeviceMetrics, error) {
	return described(m, func(handle *rz_model, out *rz_backend_metrics, e *rz_error) int32 {
		return lib.rz_backend_metrics_get(handle, uint32(kind), out, e)
	}, (*rz_backend_metrics).value)
}

// ResetMetrics sets the counters to zero.
func (m *Model) ResetMetrics() error {
	return use(m, func(handle *rz_model, e *rz_error) int32 {
		lib.rz_metrics_reset(handle)
		return rz_OK
	})
}
