//! Statistics of a Vulkan driver about compiled kernels (VK_KHR_pipeline_executable_properties). RADV also compiles for
//! an absent GPU, which `RADV_FORCE_FAMILY` names.

use std::ffi::CStr;
use std::io::Write;
use std::path::Path;

use ash::{khr, vk};

/// Bytes of immediates, as in src/wgpu/probe.rs.
const IMMEDIATES: u32 = 128;

/// Prints the statistics of each NAME.spv of a folder; returns false if there is no driver.
pub fn print(folder: &Path) -> Result<bool, String> {
    // SAFETY: the calls follow the specification of Vulkan; every object lives until the process ends.
    unsafe { with_driver(folder) }.map_err(|error| format!("the Vulkan driver: {error}"))
}

unsafe fn with_driver(folder: &Path) -> Result<bool, String> {
    let text = |error: vk::Result| error.to_string();
    unsafe {
        let Ok(entry) = ash::Entry::load() else { return Ok(false) };
        let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let Ok(instance) = entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&app), None)
        else {
            return Ok(false);
        };
        let Some(&physical) = instance.enumerate_physical_devices().map_err(text)?.first() else { return Ok(false) };
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let mut of_1_3 = vk::PhysicalDeviceVulkan13Features::default().shader_integer_dot_product(true);
        let mut of_1_2 = vk::PhysicalDeviceVulkan12Features::default().vulkan_memory_model(true).shader_int8(true);
        let mut robust = vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(true);
        let mut statistics =
            vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(true);
        let features = vk::PhysicalDeviceFeatures::default().robust_buffer_access(true);
        let names = [khr::pipeline_executable_properties::NAME.as_ptr(), ash::ext::robustness2::NAME.as_ptr()];
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&names)
            .enabled_features(&features)
            .push_next(&mut of_1_3)
            .push_next(&mut of_1_2)
            .push_next(&mut robust)
            .push_next(&mut statistics);
        let device = instance.create_device(physical, &info, None).map_err(text)?;
        let executables = khr::pipeline_executable_properties::Device::new(&instance, &device);
        let layout = layout(&device).map_err(text)?;
        let mut out = std::io::stdout();
        for path in crate::files(folder, "spv")? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // Before the driver compiles the kernel, because the driver may crash.
            writeln!(out, "{name}").and_then(|()| out.flush()).map_err(|error| error.to_string())?;
            let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
            for (what, value) in compile(&device, &executables, layout, &bytes).map_err(|e| format!("{name}: {e}"))? {
                writeln!(out, "{name}\t{what}\t{value}").map_err(|error| error.to_string())?;
            }
        }
        Ok(true)
    }
}

/// The pipeline layout of kernels with a cache.
unsafe fn layout(device: &ash::Device) -> Result<vk::PipelineLayout, vk::Result> {
    let binding = |binding| {
        vk::DescriptorSetLayoutBinding::default()
            .binding(binding)
            .descriptor_count(1)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
    };
    let all: Vec<_> = (0..4).map(binding).collect();
    let set = |bindings| unsafe {
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(bindings);
        device.create_descriptor_set_layout(&info, None)
    };
    let sets = [set(&all)?, set(&all[..1])?];
    let words = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(IMMEDIATES)];
    let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&words);
    unsafe { device.create_pipeline_layout(&info, None) }
}

/// Compiles a kernel; returns the name and value of each statistic.
unsafe fn compile(
    device: &ash::Device,
    executables: &khr::pipeline_executable_properties::Device,
    layout: vk::PipelineLayout,
    bytes: &[u8],
) -> Result<Vec<(String, u64)>, vk::Result> {
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    unsafe {
        let module = device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None)?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = [vk::ComputePipelineCreateInfo::default()
            .flags(vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR)
            .stage(stage)
            .layout(layout)];
        let made = device.create_compute_pipelines(vk::PipelineCache::null(), &info, None);
        let pipeline = made.map_err(|(_, error)| error)?[0];
        let which = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
        let found = executables.get_pipeline_executable_statistics(&which)?;
        device.destroy_pipeline(pipeline, None);
        device.destroy_shader_module(module, None);
        let name = |chars: &[std::ffi::c_char]| CStr::from_ptr(chars.as_ptr()).to_string_lossy().into_owned();
        Ok(found.iter().map(|found| (name(&found.name), found.value.u64)).collect())
    }
}
