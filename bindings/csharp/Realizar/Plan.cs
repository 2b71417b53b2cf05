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

        internal static unsafe Plan Of(rz_model_plan* p, rz_model_plan_device[] parts, int n)
        {
            var devices = new List<OnDevice>();
            for (var i = 0; i < n; i++)
                devices.Add(new OnDevice {
                    Device = (int)parts[i].device, Layers = (int)parts[i].n_layers, Weights = parts[i].weights, Cache = parts[i].cache,
                    Scratch = parts[i].scratch, Total = parts[i].total,
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
