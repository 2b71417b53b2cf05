//! The element types that options of bindings offer must be the types that the library accepts; the build reads them
//! from the comments of the fields.

use std::ffi::CString;
use std::ptr::null_mut;

use realizar::ffi::cache::*;
use realizar::ffi::model::*;
use realizar::ffi::status::*;

use super::host::*;
use crate::support::interface;

/// Holds the enum of Java against the library's answer for every element type.
fn compare(file: &str, takes: impl Fn(u32) -> bool) {
    let path = format!("{}/bindings/java/realizar/{file}.java", env!("CARGO_MANIFEST_DIR"));
    let offered = std::fs::read_to_string(path).expect("the enum");
    let mut n = 0;
    for constant in interface::items("constant") {
        let name = interface::text(&constant, "name");
        if name.starts_with("RZ_TYPE_") {
            let number = interface::text(&constant, "value").parse().expect("a number");
            assert_eq!(takes(number), offered.contains(&format!("(Header.{name})")), "{file}: {name}");
            n += 1;
        }
    }
    assert!(n > 30);
}

#[test]
fn caches_take_the_types_that_are_offered() {
    let model = load();
    let takes = |k_type, v_type| {
        let params = rz_cache_params { struct_size: 16, capacity: 64, k_type, v_type };
        let mut cache = null_mut();
        let status = unsafe { rz_cache_new(model, &params, &mut cache, null_mut()) };
        unsafe { rz_cache_free(cache) };
        assert!([RZ_OK, RZ_ERR_INVALID_ARGUMENT].contains(&status));
        status == RZ_OK
    };
    compare("CacheType", |number| takes(number, 0));
    compare("CacheType", |number| takes(0, number));
    unsafe { rz_model_free(model) };
}

#[test]
fn loads_quantize_to_the_types_that_are_offered() {
    let path = CString::new(MODEL).expect("no NUL");
    compare("ElementType", |quantize| {
        let params = rz_model_params { quantize, flags: RZ_MODEL_TEXT_ONLY, ..sized() };
        let (mut model, mut err) = (null_mut(), no_error());
        let status = unsafe { rz_model_load(path.as_ptr(), &params, &mut model, &mut err) };
        unsafe { rz_model_free(model) };
        assert!([RZ_OK, RZ_ERR_INVALID_ARGUMENT].contains(&status), "{}", text_of(&err.message));
        status == RZ_OK
    });
}
