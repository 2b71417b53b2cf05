using System;
using System.Collections.Generic;

namespace Realizar
{
    /// <summary>Memory that a model and its sessions take, in bytes.</summary>
    public sealed class Plan
    {
        public int GpuLayers { get; private set; }
        public ulong WeightsHost { get; private set; }
        public ulong WeightsDevice { get; private set; }
        /// <summary>Memory of one session at its full context length.</summary>
        public ulong CacheHost { get; private set; }
        public ulong CacheDevice { get; private set; }
        /// <summary>Memory that one more token of context adds to a session.</summary>
        public ulong CacheToken { get; private set; }
        public ulong ScratchHost { get; private set; }
        public ulong ScratchDevice { get; private set; }
        /// <summary>Peak memory during the load.</summary>
        public ulong LoadPeakHost { get; private set; }
        public ulong TotalHost { get; private set; }
        public ulong TotalDevice { get; private set; }
        /// <summary>Memory of the experts (MoE) of layers on GPUs, which is part of the weights.</summary>
        public ulong ExpertsHost { get; private set; }
        public ulong ExpertsDevice { get; private set; }
        /// <summary>The first layer on a GPU whose experts are on the CPU, and the number of layers up to the last
        /// one.</summary>
        public int FirstExpertsHost { get; private set; }
        public int NExpertsHost { get; private set; }
        /// <summary>Memory on each GPU that has layers.</summary>
        public IReadOnlyList<OnDevice> Devices { get; private set; }

        public struct OnDevice
        {
            public int Device, Layers;
            public ulong Weights, Cache, Scratch, Total;
        }

        internal static unsafe Plan Of(rz_plan* p)
        {
            var devices = new List<OnDevice>();
            for (var i = 0; i < 16 && p->devices[i] != 0; i++)
                devices.Add(new OnDevice {
                    Device = (int)p->devices[i], Layers = (int)p->device_layers[i], Weights = p->device_weights[i],
                    Cache = p->device_cache[i], Scratch = p->device_scratch[i], Total = p->device_total[i],
                });
            return new Plan {
                GpuLayers = (int)p->gpu_layers, WeightsHost = p->weights_host, WeightsDevice = p->weights_device, CacheHost = p->cache_host,
                CacheDevice = p->cache_device, CacheToken = p->cache_token, ScratchHost = p->scratch_host, ScratchDevice = p->scratch_device,
                LoadPeakHost = p->load_peak_host, TotalHost = p->total_host, TotalDevice = p->total_device, Devices = devices,
                ExpertsHost = p->experts_host, ExpertsDevice = p->experts_device, FirstExpertsHost = (int)p->experts_host_first,
                NExpertsHost = (int)p->experts_host_layers,
            };
        }
    }
}
