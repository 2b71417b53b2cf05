//! The options of naga are those of wgpu-hal 30 (src/metal/device.rs, src/vulkan/device.rs) for a module that
//! `create_shader_module_trusted` made without runtime checks, with the pipeline layout of src/wgpu/kernels.rs.

use std::fs;
use std::path::Path;

use naga::back::{msl, spv};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{Module, ResourceBinding, ShaderStage};

const ENTRY: &str = "main";

/// Buffers of groups 0 (weights, vectors, inputs, scratch) and 1 (cache): group, binding, writable.
const BUFFERS: [(u32, u32, bool); 5] = [(0, 0, false), (0, 1, false), (0, 2, false), (0, 3, true), (1, 0, true)];

const UNCHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Unchecked,
    buffer: BoundsCheckPolicy::Unchecked,
    image_load: BoundsCheckPolicy::Unchecked,
    binding_array: BoundsCheckPolicy::Unchecked,
};

/// Writes NAME.metal and NAME.spv for each NAME.wgsl of a folder.
pub fn folder(folder: &Path) -> Result<(), String> {
    let mut wrong = Vec::new();
    for path in crate::files(folder, "wgsl")? {
        if let Err(error) = file(&path) {
            wrong.push(format!("{}: {error}", path.display()));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn file(path: &Path) -> Result<(), String> {
    let source = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let module = naga::front::wgsl::parse_str(&source).map_err(|error| error.emit_to_string(&source))?;
    // The second: `unpack2x16float`, which every Metal and Vulkan device has.
    let capabilities = Capabilities::IMMEDIATES | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    let info = validator.validate(&module).map_err(|error| error.emit_to_string(&source))?;
    fs::write(path.with_extension("metal"), metal(&module, &info)?).map_err(|error| error.to_string())?;
    let words = spirv(&module, &info)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(path.with_extension("spv"), bytes).map_err(|error| error.to_string())
}

fn metal(module: &Module, info: &ModuleInfo) -> Result<String, String> {
    // Immediates come first, then the buffers in order of groups, then their sizes.
    let slots = (1..).zip(BUFFERS);
    let resources = slots.map(|(slot, (group, binding, mutable))| {
        (ResourceBinding { group, binding }, msl::BindTarget { buffer: Some(slot), mutable, ..Default::default() })
    });
    let resources = msl::EntryPointResources {
        resources: resources.collect(),
        immediates_buffer: Some(0),
        sizes_buffer: Some(BUFFERS.len() as u8 + 1),
    };
    let options = msl::Options {
        lang_version: (3, 2),
        per_entry_point_map: [(ENTRY.to_owned(), resources)].into_iter().collect(),
        fake_missing_bindings: false,
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        mesh_shader_primitive_indices_clamp: false,
        emit_int_div_checks: false,
        ray_query_initialization_tracking: false,
        ..Default::default()
    };
    let pipeline = msl::PipelineOptions {
        entry_point: Some((ShaderStage::Compute, ENTRY.to_owned())),
        vertex_pulling_transform: true,
        ..Default::default()
    };
    let written = msl::write_string(module, info, &options, &pipeline);
    written.map(|(text, _)| text).map_err(|error| format!("Metal: {error}"))
}

fn spirv(module: &Module, info: &ModuleInfo) -> Result<Vec<u32>, String> {
    use ::spirv::Capability;
    let capabilities = [
        Capability::Shader,
        Capability::VulkanMemoryModel,
        Capability::Int8,
        Capability::DotProductInputAllKHR,
        Capability::DotProductInput4x8BitKHR,
        Capability::DotProductInput4x8BitPackedKHR,
        Capability::DotProductKHR,
    ];
    let options = spv::Options {
        lang_version: (1, 6),
        flags: spv::WriterFlags::LABEL_VARYINGS | spv::WriterFlags::FORCE_POINT_SIZE,
        fake_missing_bindings: true,
        capabilities: Some(capabilities.into_iter().collect()),
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..Default::default()
    };
    let pipeline = spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: ENTRY.to_owned() };
    spv::write_vec(module, info, &options, Some(&pipeline)).map_err(|error| format!("SPIR-V: {error}"))
}
