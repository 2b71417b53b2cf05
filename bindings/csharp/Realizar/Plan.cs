using System;
using System.Collections.Generic;

namespace Realizar
{
    /// <summary>Memory that a model and its sessions take, in bytes.</summary>
    public sealed class Plan
    {
        /// <summary>Layers on GPUs.</summary>
        public int GpuLayers { get; private set; }
        /// <summary>Weights on the CPU.</summary>
        public ulong WeightsHost { get; private set; }
        /// <summary>Weights on GPUs.</summary>
        public ulong WeightsDevice { get; private set; }
        /// <summary>Memory of one session at its full context length.</summary>
        public ulong CacheHost { get; private set; }
        /// <summary>The same on GPUs.</summary>
        public ulong CacheDevice { get; private set; }
        /// <summary>Memory that one more token of context adds to a session.</summary>
        public ulong CacheToken { get; private set; }
        /// <summary>Scratch memory of a step.</summary>
        public ulong ScratchHost { get; private set; }
        /// <summary>The same on GPUs.</summary>
        public ulong ScratchDevice { get; private set; }
        /// <summary>Peak memory during the load.</summary>
        public ulong LoadPeakHost { get; private set; }
        /// <summary>Everything on the CPU.</summary>
        public ulong TotalHost { get; private set; }
        /// <summary>Everything on GPUs.</summary>
        public ulong TotalDevice { get; private set; }
        /// <summary>Memory of the experts (MoE) of layers on GPUs, which is part of the weights.</summary>
        public ulong ExpertsHost { get; private set; }
        /// <summary>The same on GPUs.</summary>
        public ulong ExpertsDevice { get; private set; }
        /// <summary>The first layer on a GPU whose experts are on the CPU, and the number of layers up to the last
        /// one.</summary>
        public int FirstExpertsHost { get; private set; }
        /// <summary>Number of those layers.</summary>
        public int NExpertsHost { get; private set; }
        /// <summary>Memory on each GPU that has layers.</summary>
        public IReadOnlyList<OnDevice> Devices { get; private set; }

        /// <summary>Memory on a GPU, in bytes.</summary>
        public struct OnDevice
        {
            /// <summary>Index of the GPU.</summary>
            public int Device;
            /// <summary>Number of layers on it.</summary>
            public int Layers;
            /// <summary>Weights.</summary>
            public ulong Weights;
            /// <summary>KV cache of one session.</summary>
            public ulong Cache;
            /// <summary>Scratch memory of a step.</summary>
            public ulong Scratch;
            /// <summary>Everything.</summary>
            public ulong Total;
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
