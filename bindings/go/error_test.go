package realizar

import "testing"

func TestErrorsHaveTheNamesOfOptions(t *testing.T) {
	for message, wanted := range map[string]string{
		"rz_sampler_params.banned_sequences[0] has no tokens": "BannedSequences[0] has no tokens",
		"rz_sampler_params.dry_base is 0":                     "DRYBase is 0",
		"rz_model_params.gpu_layers is 0":                     "GPULayers is 0",
		"rz_model_params.device is 9":                         "Device is 9",
		"the cache is full":                                   "the cache is full",
	} {
		if found := named(message); found != wanted {
			t.Error(found, wanted)
		}
	}
}
