//! The kernels, each concatenated from WGSL fragments and compiled when a program first needs it, and the launches of a
//! step.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::{Arc, Mutex};

use ::wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry,
    BindingType, Buffer, BufferBindingType, ComputePassDescriptor, ComputePipeline, ComputePipelineDescriptor,
    PipelineCompilationOptions, PipelineLayout, PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderRuntimeChecks,
    ShaderSource, ShaderStages, SubmissionIndex,
};

use super::context::{Context, Gpu, Held};
use super::memory::encoder;
use super::probe::{IMMEDIATES, WORKING};
use crate::error::{Error, Result, secured};
use crate::gpu::verdict::lock;

/// Offset that marks an absent vector or activation.
pub const NONE: u32 = u32::MAX;

/// Maximum words of immediates of a launch.
pub const WORDS: usize = IMMEDIATES as usize / 4;

/// Maximum number of workgroups in a dimension of a grid.
pub const MAX_GRID: usize = 65_535;

macro_rules! fragments {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../kernels/wgsl/", $name, ".wgsl")))),*] };
}

/// Fragments of the kernels' sources: file name and text.
const FRAGMENTS: &[(&str, &str)] = fragments![
    "argmax" "attend" "bf16" "bindings" "blocks" "cache" "columns_of_blocks" "columns_of_floats" "combine" "common"
    "conv" "delta" "dot" "dot_heads" "embed" "embed_float" "expert_gemv" "expert_gemv_float" "f16" "f32" "floats"
    "functions" "gemv" "gemv_float" "hadamard" "join" "map" "mix" "mix_by_score" "move" "norm" "pick" "prepare" "project_heads"
    "q4_0" "q4_1" "q4_k" "q5_0" "q5_1" "q5_k" "q6_k" "q8_0" "rescale" "rope" "rotate" "route" "scales_of_k" "scan" "sinkhorn"
    "store" "tile" "tile_float" "top" "wkv"
];

/// Adds the sources of all kernels to a hash.
pub fn hash_sources(hash: &mut impl Hasher) {
    FRAGMENTS.iter().for_each(|(_, text)| hash.write(text.as_bytes()));
}

/// A kernel: the fragments of its source, and the constants that precede the fragments as source text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    /// Name of the last fragment, also used in error messages.
    pub name: &'static str,
    pub fragments: Vec<&'static str>,
    pub constants: Vec<(&'static str, u32)>,
    /// True if the kernel reads or writes a KV cache.
    pub has_cache: bool,
}

impl Kernel {
    /// A kernel that uses no KV cache.
    pub fn new(name: &'static str, fragments: &[&'static str]) -> Kernel {
        let fragments = [&["common", "bindings"], fragments, &[name]].concat();
        Kernel { name, fragments, constants: Vec::new(), has_cache: false }
    }

    /// A kernel that reads or writes a KV cache.
    pub fn of_cache(name: &'static str, constants: &[(&'static str, u32)]) -> Kernel {
        let fragments = vec!["common", "bindings", "cache", "functions", "hadamard", name];
        Kernel { name, fragments, constants: constants.to_vec(), has_cache: true }
    }

    pub fn with(mut self, name: &'static str, value: u32) -> Kernel {
        self.constants.push((name, value));
        self
    }

    fn source(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.constants {
            text.push_str(&format!("const {name}: u32 = {value}u;\n"));
        }
        for fragment in &self.fragments {
            text.push_str(FRAGMENTS.iter().find(|(name, _)| name == fragment).map_or("", |(_, text)| text));
        }
        text
    }
}

/// Bind group layouts and compiled pipelines of a device.
pub struct Kernels {
    layouts: Held<Layouts>,
    pipelines: Mutex<HashMap<Kernel, Arc<Held<ComputePipeline>>>>,
}

struct Layouts {
    /// Weights, vectors, inputs, scratch.
    step: BindGroupLayout,
    cache: BindGroupLayout,
    without_cache: PipelineLayout,
    with_cache: PipelineLayout,
}

fn entry(binding: u32, read_only: bool) -> BindGroupLayoutEntry {
    let ty = BindingType::Buffer {
        ty: BufferBindingType::Storage { read_only },
        has_dynamic_offset: false,
        min_binding_size: None,
    };
    BindGroupLayoutEntry { binding, visibility: ShaderStages::COMPUTE, ty, count: None }
}

impl Kernels {
    pub fn new(context: &Arc<Context>) -> Result<Kernels> {
        let layouts = Held::new(context, "layouts of kernels", 0, |gpu| {
            let layout = |entries: &[BindGroupLayoutEntry]| {
                gpu.device.create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries })
            };
            let step = layout(&[entry(0, true), entry(1, true), entry(2, true), entry(3, false)]);
            let cache = layout(&[entry(0, false)]);
            let whole = |bind_group_layouts: &[Option<&BindGroupLayout>]| {
                let descriptor =
                    PipelineLayoutDescriptor { label: None, bind_group_layouts, immediate_size: IMMEDIATES };
                gpu.device.create_pipeline_layout(&descriptor)
            };
            let (without_cache, with_cache) = (whole(&[Some(&step)]), whole(&[Some(&step), Some(&cache)]));
            Layouts { step, cache, without_cache, with_cache }
        })?;
        Ok(Kernels { layouts, pipelines: Mutex::default() })
    }

    fn context(&self) -> &Arc<Context> {
        &self.layouts.context
    }

    /// Creates the bind group of weights, vectors, inputs and scratch.
    pub fn step_group(&self, buffers: [&Buffer; 4]) -> Result<Held<BindGroup>> {
        let layouts = self.layouts.get()?;
        self.group(&layouts.step, &buffers)
    }

    /// Creates the bind group of a cache.
    pub fn cache_group(&self, cache: &Buffer) -> Result<Held<BindGroup>> {
        let layouts = self.layouts.get()?;
        self.group(&layouts.cache, &[cache])
    }

    fn group(&self, layout: &BindGroupLayout, buffers: &[&Buffer]) -> Result<Held<BindGroup>> {
        Held::new(self.context(), "a bind group", 0, |gpu| {
            let numbered = (0..).zip(buffers);
            let entries =
                numbered.map(|(binding, buffer)| BindGroupEntry { binding, resource: buffer.as_entire_binding() });
            let entries: Vec<BindGroupEntry> = entries.collect();
            gpu.device.create_bind_group(&BindGroupDescriptor { label: None, layout, entries: &entries })
        })
    }

    /// Returns the pipeline of a kernel; compiles the kernel at the first call.
    pub fn pipeline(&self, kernel: &Kernel) -> Result<Arc<Held<ComputePipeline>>> {
        if let Some(known) = lock(&self.pipelines).get(kernel) {
            return Ok(known.clone());
        }
        let layouts = self.layouts.get()?;
        let layout = if kernel.has_cache { &layouts.with_cache } else { &layouts.without_cache };
        let source = kernel.source();
        let compile = |gpu: &Gpu| {
            let descriptor = ShaderModuleDescriptor { label: None, source: ShaderSource::Wgsl(source.into()) };
            // SAFETY: the device's robust buffer access keeps every access inside its binding; the iterations of loops
            // are bounded by constants and by numbers that `Program::check` and `Batch::check` limit.
            let module =
                unsafe { gpu.device.create_shader_module_trusted(descriptor, ShaderRuntimeChecks::unchecked()) };
            gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
                label: None,
                layout: Some(layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            })
        };
        let what = format!("compiling {}", kernel.name);
        let pipeline = secured("a kernel", WORKING, || Held::new(self.context(), &what, 0, compile))?;
        let pipeline = Arc::new(pipeline);
        lock(&self.pipelines).insert(kernel.clone(), pipeline.clone());
        Ok(pipeline)
    }
}

/// A launch of a kernel.
pub struct Launch {
    pub name: &'static str,
    pub pipeline: Arc<Held<ComputePipeline>>,
    /// Index of the bind group with the weights that the kernel reads.
    pub weights: usize,
    /// Index of the cache's bind group in the list of the step.
    pub cache: Option<usize>,
    pub words: [u32; WORDS],
    pub n_words: usize,
    pub grid: [u32; 3],
}

/// Encodes launches in one compute pass, and submits the pass.
pub fn submit(
    context: &Context,
    launches: &[Launch],
    groups: &[&Held<BindGroup>],
    caches: &[&Held<BindGroup>],
) -> Result<SubmissionIndex> {
    let missing = || Error::invalid("a launch names a buffer that does not exist");
    for launch in launches {
        groups.get(launch.weights).ok_or_else(missing)?.get()?;
        launch.pipeline.get()?;
        launch.cache.map_or(Ok(()), |cache| caches.get(cache).ok_or_else(missing)?.get().map(|_| ()))?;
    }
    context.in_turn("a submission", |gpu| {
        let mut encoder = encoder(gpu);
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        let (mut pipeline, mut weights, mut cache) = (None, None, None);
        for launch in launches {
            let next = launch.pipeline.get().ok();
            if pipeline != next {
                pipeline = next;
                next.into_iter().for_each(|next| pass.set_pipeline(next));
            }
            if weights != Some(launch.weights) {
                weights = Some(launch.weights);
                pass.set_bind_group(0, groups[launch.weights].get().ok(), &[]);
            }
            if let Some(own) = launch.cache
                && cache != launch.cache
            {
                cache = launch.cache;
                pass.set_bind_group(1, caches[own].get().ok(), &[]);
            }
            let bytes: Vec<u8> = launch.words[..launch.n_words].iter().flat_map(|word| word.to_le_bytes()).collect();
            pass.set_immediates(0, &bytes);
            pass.dispatch_workgroups(launch.grid[0], launch.grid[1], launch.grid[2]);
        }
        drop(pass);
        gpu.queue.submit([encoder.finish()])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On Metal a store to one component of a vector may write the whole vector, including components of other threads.
    #[test]
    fn buffers_that_kernels_write_have_no_vectors() {
        let mut written = 0;
        for (name, text) in FRAGMENTS {
            for line in text.lines().filter(|line| line.contains("read_write>")) {
                written += 1;
                assert!(!line.contains("array<vec"), "{name}: {line}");
            }
        }
        assert_eq!(written, 2);
    }

    #[test]
    fn a_source_has_its_constants_and_fragments() {
        let names: Vec<&str> = FRAGMENTS.iter().map(|(name, _)| *name).collect();
        let kernel = Kernel::new("gemv", &["blocks", "dot", "q8_0"]).with("T", 4);
        assert!(kernel.fragments.iter().all(|fragment| names.contains(fragment)));
        assert!(kernel.source().starts_with("const T: u32 = 4u;\n") && kernel.source().contains("fn chunk_at"));
    }
}
