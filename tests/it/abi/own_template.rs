//! A chat template as a load parameter. The oracle is a file with the same template.

use super::conversation::{TEMPLATE, Talk, reply_params, size};
use super::host::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};

use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::plan::*;
use realizar::ffi::status::*;

fn params(template: &str) -> rz_model_params {
    let (chat_template, chat_template_len) = (template.as_ptr().cast(), template.len());
    rz_model_params { struct_size: size::<rz_model_params>(), chat_template, chat_template_len, ..zeroed() }
}

#[test]
fn a_template_of_the_caller_takes_the_place_of_the_models_own() {
    let other = with_template("{{ messages[0].content }} of the file");
    let file = with_template(TEMPLATE);
    let path = |file: &tempfile::NamedTempFile| file.path().to_str().expect("UTF-8").to_owned();
    let said = |model| {
        let talk = Talk::of(model, "", 256, 0);
        talk.add("user", "Hi");
        talk.reply(reply_params(12))
    };
    let wanted = said(load_with(&path(&file), null()));
    // A model without a template, and one with another.
    for path in [MODEL.to_owned(), path(&other)] {
        assert_eq!(said(load_with(&path, &params(TEMPLATE))), wanted);
    }
    unsafe {
        let model = load_with(MODEL, &params("{{ bos_token }}{{ messages[0].content }}"));
        let mut info = rz_model_info { struct_size: size::<rz_model_info>(), ..zeroed() };
        expect(RZ_OK, |e| rz_model_info_get(model, &mut info, e));
        assert_eq!(info.chat_template, RZ_TEMPLATE_PRESENT | RZ_TEMPLATE_WRITES_BOS);
        rz_model_free(model);
    }
}

/// What conversations may have follows the template that counts, and so does what a plan counts for it.
#[test]
fn capabilities_and_plans_are_those_of_the_template() {
    let said = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    let file = with_template(TEMPLATE);
    let path = file.path().to_str().expect("UTF-8");
    let info = |model: *mut rz_model| unsafe {
        let mut info = rz_model_info { struct_size: size::<rz_model_info>(), ..zeroed() };
        expect(RZ_OK, |e| rz_model_info_get(model, &mut info, e));
        rz_model_free(model);
        (info.chat_template, info.capabilities)
    };
    let of_file = info(load_with(path, null()));
    assert!(of_file.1 & RZ_CAN_TOOLS != 0);
    assert_eq!(info(load_with(MODEL, &params(TEMPLATE))), of_file);
    assert_eq!(info(load_with(MODEL, null())), (0, RZ_CAN_GENERATE));
    assert_eq!(info(load_with(path, &params(said))), (RZ_TEMPLATE_PRESENT, RZ_CAN_GENERATE | RZ_CAN_SYSTEM));

    let plan = |path: &str, params: *const rz_model_params| {
        let path = CString::new(path).expect("no NUL");
        let mut plan = rz_model_plan { struct_size: size::<rz_model_plan>(), ..zeroed() };
        expect(RZ_OK, |e| unsafe {
            rz_model_plan_get(path.as_ptr(), null(), 0, params, null(), 1, &mut plan, null_mut(), 0, null_mut(), e)
        });
        (plan.weights_host, plan.total_host)
    };
    // The metadata of the file has the text once more.
    let (given, own, none) = (plan(MODEL, &params(TEMPLATE)), plan(path, null()), plan(MODEL, null()));
    assert!(given.0 == own.0 && own.1.abs_diff(given.1) < 4096, "{given:?} {own:?}");
    assert!(given.1 > none.1 + 4096, "{given:?} {none:?}");
    let (path, mut out) =
        (CString::new(MODEL).expect("no NUL"), rz_model_plan { struct_size: size::<rz_model_plan>(), ..zeroed() });
    fails(RZ_ERR_INVALID_ARGUMENT, "chat_template:1", |e| unsafe {
        rz_model_plan_get(
            path.as_ptr(),
            null(),
            0,
            &params("{% if %}"),
            null(),
            1,
            &mut out,
            null_mut(),
            0,
            null_mut(),
            e,
        )
    });
}

#[test]
fn a_template_that_is_none_fails_the_load_with_its_line() {
    let path = CString::new(MODEL).expect("no NUL");
    for (template, what) in [("{{ a }}\n{% for m in %}", "chat_template:2"), ("a\n\n{% endfor %}", "chat_template:3")] {
        let mut model = null_mut();
        let load = |e| unsafe { rz_model_load(path.as_ptr(), &params(template), &mut model, e) };
        fails(RZ_ERR_INVALID_ARGUMENT, what, load);
        assert!(model.is_null());
    }
    let cut = rz_model_params { chat_template: null(), ..params("a") };
    let mut model = null_mut();
    fails(RZ_ERR_INVALID_ARGUMENT, "rz_model_params.chat_template is NULL", |e| unsafe {
        rz_model_load(path.as_ptr(), &cut, &mut model, e)
    });
}
