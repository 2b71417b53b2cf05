//! A chat template, which is rendered with a conversation of several roles.
#![no_main]

use libfuzzer_sys::fuzz_target;
use realizar::engine::on_new_thread;
use realizar::text::{Chat, ChatTemplate};

fuzz_target!(|source: &str| {
    let template = ChatTemplate::new(source, "<s>".into(), "</s>".into());
    let messages = [("system", "be <s> brief"), ("user", "größe \u{1f600}"), ("assistant", "{{ 1 }}"), ("user", "")];
    let _ = on_new_thread(|| template.render(&Chat::new(&messages, true)).and_then(|text| text.plain()));
});
