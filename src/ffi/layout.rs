//! Layouts of the header's structs as data, which hand-written bindings compare with their own.

use std::ffi::c_char;

use crate::error::{Error, Result};

use super::field::write_text;
use super::guard::guarded_first;
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::{Layout, StructField, Versioned};

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

struct Struct {
    name: &'static str,
    size: usize,
    fields: &'static [StructField],
}

const fn of<T: Layout>() -> Struct {
    Struct { name: T::NAME, size: size_of::<T>(), fields: T::FIELDS }
}

macro_rules! layout {
    ($path:path, $name:literal, [$($field:ident),+]) => {
        impl Layout for $path {
            const NAME: &'static str = $name;
            const FIELDS: &'static [StructField] = &[$(StructField {
                name: stringify!($field),
                offset: std::mem::offset_of!($path, $field),
                size: width(|s: &$path| &s.$field),
            }),+];
        }
        // The fields must cover the struct without holes.
        const _: () = assert!(0 $(+ width(|s: &$path| &s.$field))+ == size_of::<$path>());
    };
}

macro_rules! versioned {
    ($path:path, $name:literal, [$($field:ident),+], reserved [$($reserved:ident),*]) => {
        layout!($path, $name, [$($field),+]);
        // SAFETY: fields are integers, floats, raw and optional function pointers; the assertion checks the layout.
        unsafe impl Versioned for $path {
            fn reserved(&self) -> u32 {
                0 $(| self.$reserved)*
            }
        }
        const _: () = assert!(std::mem::offset_of!($path, struct_size) == 0);
    };
}

/// Bytes of the field that a projection selects.
const fn width<S, F>(_field: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

// Generated from the declarations of all groups: a call of one of the macros for each struct, and `STRUCTS`.
include!(concat!(env!("OUT_DIR"), "/layouts.rs"));

/// Returns entry `index` of the table of all structs of this header: for each struct an entry for the whole struct,
/// then its fields in order.
///
/// The caller sets `out->struct_size`. A binding that declares these structs in another language iterates from 0 until
/// RZ_ERR_NOT_FOUND and compares. Any thread. Errors: RZ_ERR_NOT_FOUND beyond the last entry. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_layout_get(index: u32, out: *mut rz_layout, err: *mut rz_error) -> rz_status {
    guarded_first!(err, |call| {
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
    let beyond = || Error::not_found(format!("index is {index}; it must be below the number of entries"));
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
    // A field of the C struct has a name that is a keyword of Rust.
    write_text(&mut layout.field_name, format_args!("{}", field_name.trim_start_matches("r#")));
    Ok(layout)
}
