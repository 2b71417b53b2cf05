//! The layouts of the header's structs as data, so that a binding written by hand can check itself.

use std::ffi::c_char;

use crate::error::{Error, Result};

use super::allocator::rz_allocator;
use super::cache::rz_cache_params;
use super::chat::rz_chat_message;
use super::conversation::{rz_conversation_info, rz_conversation_params, rz_reply_params};
use super::device::rz_device_info;
use super::embed::rz_embed_params;
use super::encoder::{rz_encoder_info, rz_encoder_params, rz_encoder_plan, rz_media_params, rz_pixels};
use super::field::write_text;
use super::guard::guarded;
use super::job::{rz_job_info, rz_job_params};
use super::kernels::{rz_attention_params, rz_kv_params};
use super::media::rz_media_info;
use super::metrics::{rz_backend_metrics, rz_metrics, rz_phase_metrics};
use super::model::{rz_model_info, rz_model_params, rz_model_sampling};
use super::plan::rz_plan;
use super::prompt::rz_part;
use super::runtime::rz_runtime_params;
use super::sampler::{rz_logit_bias, rz_sampler_params, rz_token_sequence};
use super::source::rz_source;
use super::status::{RZ_OK, rz_error, rz_status};
use super::store::{rz_store_info, rz_store_params};
use super::structs::{Layout, StructField, versioned};

/// Offset and size of a field of a struct, or size of a whole struct. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_layout {
    /// sizeof(rz_layout), set by the caller.
    pub struct_size: u32,
    /// Bytes before the field; 0 for a whole struct.
    pub offset: u32,
    /// Bytes of the field, or of the struct.
    pub size: u32,
    /// Name of the struct, such as "rz_model_info".
    pub struct_name: [c_char; 32],
    /// Name of the field, such as "n_layers"; empty for the whole struct.
    pub field_name: [c_char; 32],
}

versioned!(rz_layout { struct_size, offset, size, struct_name, field_name });

struct Struct {
    name: &'static str,
    size: usize,
    fields: &'static [StructField],
}

const fn of<T: Layout>() -> Struct {
    Struct { name: T::NAME, size: size_of::<T>(), fields: T::FIELDS }
}

const STRUCTS: &[Struct] = &[
    of::<rz_error>(),
    of::<rz_layout>(),
    of::<rz_allocator>(),
    of::<rz_device_info>(),
    of::<rz_runtime_params>(),
    of::<rz_model_params>(),
    of::<rz_model_info>(),
    of::<rz_model_sampling>(),
    of::<rz_source>(),
    of::<rz_plan>(),
    of::<rz_chat_message>(),
    of::<rz_logit_bias>(),
    of::<rz_token_sequence>(),
    of::<rz_sampler_params>(),
    of::<rz_cache_params>(),
    of::<rz_media_info>(),
    of::<rz_encoder_params>(),
    of::<rz_encoder_info>(),
    of::<rz_encoder_plan>(),
    of::<rz_pixels>(),
    of::<rz_media_params>(),
    of::<rz_part>(),
    of::<rz_job_params>(),
    of::<rz_job_info>(),
    of::<rz_store_params>(),
    of::<rz_store_info>(),
    of::<rz_conversation_params>(),
    of::<rz_reply_params>(),
    of::<rz_conversation_info>(),
    of::<rz_embed_params>(),
    of::<rz_backend_metrics>(),
    of::<rz_phase_metrics>(),
    of::<rz_metrics>(),
    of::<rz_attention_params>(),
    of::<rz_kv_params>(),
];

/// Entry `index` of the table of all structs of this header: of each first the whole, then its fields in order.
///
/// `out->struct_size` is set by the caller. A binding that writes these structs down in another language asks for the
/// entries from 0 until RZ_ERR_INVALID_ARGUMENT and compares. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT beyond the
/// last entry. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_layout_get(index: u32, out: *mut rz_layout, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let out = call.out_struct(out)?;
        out.set(entry(index)?);
        Ok(RZ_OK)
    })
}

fn entry(index: u32) -> Result<rz_layout> {
    let mut entries = STRUCTS.iter().flat_map(|s| {
        let fields = s.fields.iter().map(move |f| (s.name, f.name, f.offset, f.size));
        std::iter::once((s.name, "", 0, s.size)).chain(fields)
    });
    let beyond = || Error::invalid(format!("index {index} is beyond the last entry"));
    let (struct_name, field_name, offset, size) = entries.nth(index as usize).ok_or_else(beyond)?;
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut layout = rz_layout {
        struct_size: 0,
        offset: number(offset),
        size: number(size),
        struct_name: [0; 32],
        field_name: [0; 32],
    };
    write_text(&mut layout.struct_name, format_args!("{struct_name}"));
    // A word of Rust is a field's name in C.
    write_text(&mut layout.field_name, format_args!("{}", field_name.trim_start_matches("r#")));
    Ok(layout)
}
