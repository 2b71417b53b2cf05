//! Capabilities that a model reports, compared with what is known of published templates, and with what its calls do.

use super::host::*;
use std::ptr::{null, null_mut};

use realizar::ffi::chat::*;
use realizar::ffi::embed::*;
use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::status::*;
use serde_json::{Value as Json, json};

fn info(model: *const rz_model) -> rz_model_info {
    let mut info = sized::<rz_model_info>();
    expect(RZ_OK, |e| unsafe { rz_model_info_get(model, &mut info, e) });
    info
}

fn of_template(template: &str) -> *mut rz_model {
    let file = with_template(template);
    let mut params: rz_model_params = zeroed();
    (params.struct_size, params.flags) = (size_of::<rz_model_params>() as u32, RZ_MODEL_TEXT_ONLY);
    load_with(file.path().to_str().expect("UTF-8"), &params)
}

/// The text that the template makes of a conversation; `None` if it is an error.
fn render(model: *const rz_model, chat: &Json) -> Option<String> {
    let (chat, mut out, mut len) = (chat.to_string(), vec![0u8; 1 << 16], 0);
    let status = unsafe {
        let (json, out) = (chat.as_ptr().cast(), out.as_mut_ptr().cast());
        rz_chat_render_into(model, json, chat.len(), 1, out, 1 << 16, &mut len, null(), null_mut())
    };
    out.truncate(len);
    (status == RZ_OK).then(|| String::from_utf8(out).expect("UTF-8"))
}

/// The names of published templates, and what the cards of their models say.
const KNOWN: [(&str, u32); 11] = [
    ("Qwen-Qwen2.5-7B-Instruct", RZ_CAN_SYSTEM | RZ_CAN_TOOLS),
    ("Qwen3-Coder", RZ_CAN_SYSTEM | RZ_CAN_TOOLS),
    ("Qwen-Qwen3-0.6B", RZ_CAN_SYSTEM | RZ_CAN_TOOLS | RZ_CAN_REASON | RZ_CAN_SWITCH_REASONING),
    (
        "Qwen3.5-4B",
        RZ_CAN_SYSTEM | RZ_CAN_TOOLS | RZ_CAN_REASON | RZ_CAN_SWITCH_REASONING | RZ_CAN_IMAGES | RZ_CAN_VIDEO,
    ),
    // Its template reads tools from variables of other names.
    ("HuggingFaceTB-SmolLM3-3B", RZ_CAN_SYSTEM | RZ_CAN_REASON | RZ_CAN_SWITCH_REASONING),
    // Its template reads no tools: its authors write them into the text of the system message.
    ("deepseek-ai-DeepSeek-V3.1", RZ_CAN_SYSTEM | RZ_CAN_REASON | RZ_CAN_SWITCH_REASONING),
    ("GLM-4.6", RZ_CAN_SYSTEM | RZ_CAN_TOOLS | RZ_CAN_REASON | RZ_CAN_SWITCH_REASONING),
    ("Mistral-Small-3.2-24B-Instruct-2506", RZ_CAN_SYSTEM | RZ_CAN_TOOLS | RZ_CAN_IMAGES),
    ("mistralai-Mistral-Nemo-Instruct-2407", RZ_CAN_SYSTEM | RZ_CAN_TOOLS),
    ("microsoft-Phi-3.5-mini-instruct", RZ_CAN_SYSTEM),
    ("openai-gpt-oss-120b", RZ_CAN_SYSTEM | RZ_CAN_TOOLS | RZ_CAN_REASON),
];

#[test]
fn capabilities_are_those_of_published_models() {
    let published = include_str!("../../data/text/published.json");
    let published: Json = serde_json::from_str(published).expect("JSON");
    let mut wrong = Vec::new();
    for (name, known) in KNOWN {
        let model = of_template(published["templates"][name]["source"].as_str().expect(name));
        let can = info(model).capabilities;
        if can != known {
            wrong.push(format!("{name}: {can:#b}, not {known:#b}"));
        }

        // What the template does when it is called.
        let (user, system) = (json!({"role": "user", "content": "Hi"}), json!({"role": "system", "content": "S5S"}));
        let text = render(model, &json!({"messages": [system, user]})).expect(name);
        assert!(text.contains("S5S"), "{name}");
        let tool = json!({"type": "function", "function": {"name": "t6t", "description": "d",
            "parameters": {"type": "object", "properties": {"a": {"type": "string", "description": "d"}}}}});
        let tools = render(model, &json!({"messages": [user], "tools": [tool]}));
        assert_eq!(tools.is_some_and(|text| text.contains("t6t")), can & RZ_CAN_TOOLS != 0, "{name}");
        let switched = |on: bool| {
            render(model, &json!({"messages": [user], "variables": {"enable_thinking": on, "thinking": on}}))
        };
        assert_eq!(switched(true) != switched(false), can & RZ_CAN_SWITCH_REASONING != 0, "{name}");
        unsafe { rz_model_free(model) };
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Templates that lack something, are no templates, or never accept a conversation.
#[test]
fn what_a_template_lacks_is_not_among_the_capabilities() {
    let said = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    for (template, present, known) in [
        (said.to_owned(), RZ_TEMPLATE_PRESENT, RZ_CAN_SYSTEM),
        (
            format!("{{% if messages[0].role == 'system' %}}{{{{ raise_exception('no system') }}}}{{% endif %}}{said}"),
            RZ_TEMPLATE_PRESENT,
            0,
        ),
        ("{{ raise_exception('never') }}".to_owned(), RZ_TEMPLATE_PRESENT, 0),
        ("{% for m in messages %}".to_owned(), 0, 0),
        ("{{ 'x' * 1000000000000 }}".to_owned(), RZ_TEMPLATE_PRESENT, 0),
    ] {
        let model = of_template(&template);
        let info = info(model);
        assert_eq!((info.chat_template, info.capabilities), (present, known), "{template}");
        unsafe { rz_model_free(model) };
    }
}

/// A model without a template generates all the same, and its vectors have the width that it names.
#[test]
fn a_model_without_a_template_says_what_it_makes() {
    let model = load();
    let told = info(model);
    assert_eq!((told.chat_template, told.capabilities), (0, RZ_CAN_GENERATE));
    assert_eq!((told.embedding_dim, told.pooling, told.n_scores), (64, RZ_POOLING_MODEL, 0));
    unsafe { rz_model_free(model) };
    let text = load_text();
    let told = info(text);
    assert_eq!((told.capabilities, told.embedding_dim, told.pooling, told.n_scores), (0, 0, 0, 0));
    unsafe { rz_model_free(text) };
}
