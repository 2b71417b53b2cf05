//! Styles of chat templates, with the vocabulary of the tiny model.

use std::sync::{Arc, LazyLock, OnceLock};

use realizar::engine::{Chat, Model, Tokenizer, on_new_thread};
use realizar::error::Result;
use realizar::text::{ChatTemplate, Reply, ReplyForm, find_reply_form};
use serde_json::Value as Json;

use super::memory;

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let bytes = include_bytes!("../../tests/data/stories260K-f32.gguf");
    memory::load(&[("model.gguf", bytes)], true).expect("the tiny model")
});

pub fn tokenizer() -> &'static Tokenizer {
    MODEL.tokenizer().expect("a tokenizer")
}

/// A chat template, and the form of replies that was inferred from it.
pub struct Style {
    template: ChatTemplate,
    form: Arc<ReplyForm>,
}

impl Style {
    fn new(source: &str) -> Result<Style> {
        let template = ChatTemplate::new(source, "<s>".into(), "</s>".into());
        let form = Arc::new(on_new_thread(|| find_reply_form(&template))?);
        Ok(Style { template, form })
    }

    pub fn reply(&self, chat: &Chat) -> Result<Reply> {
        Reply::new(self.form.clone(), chat, &on_new_thread(|| self.template.render(chat))?)
    }
}

/// Forms of calls that the published templates of the tests do not have; `c` is a call.
const CALLS: [&str; 6] = [
    "<|calls|>[{{ '{\"' ~ c.name ~ '\": ' }}{{ c.arguments | tojson }}{{ '}' }}]<|end_calls|>",
    "<tool_call>{{ '{\"arguments\": ' ~ c.arguments | tojson ~ ', \"name\": \"' ~ c.name ~ '\"}' }}</tool_call>",
    "<invoke name=\"{{ c.name }}\">\n{% for k, v in c.arguments | items %}<parameter name=\"{{ k }}\" string=\"\
        {{ 'true' if v is string else 'false' }}\">{{ v if v is string else v | tojson }}</parameter>\n{% endfor %}\
        </invoke>\n",
    "<|tool_call>call:{{ c.name }}{{ '{' }}{% for k, v in c.arguments | items %}{{ k }}:{% if v is string %}\
        <|\"|>{{ v }}<|\"|>{% else %}{{ v | tojson }}{% endif %}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}\
        <tool_call|>",
    "<|calls|>[{{ c.name }}({% for k, v in c.arguments | items %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}\
        {% endfor %})]<|end_calls|>",
    "<function name=\"{{ c.name }}\">{% for k, v in c.arguments | items %}<param name=\"{{ k }}\">{{ v }}</param>\
        {% endfor %}</function>",
];

/// The sources of the published templates of the tests, and of templates with `CALLS`; each is parsed when it is first
/// needed.
static STYLES: LazyLock<Vec<(String, OnceLock<Style>)>> = LazyLock::new(|| {
    let published: Json = serde_json::from_str(include_str!("../../tests/data/text/published.json")).expect("JSON");
    let published = published["templates"].as_object().expect("templates").values();
    let published = published.map(|template| template["source"].as_str().expect("a source").to_owned());
    let small = CALLS.map(|call| {
        format!(
            "{{{{ tools | tojson }}}}{{% for m in messages %}}{{% if m.role == 'assistant' %}}[A]\
            {{% set r = m.reasoning_content %}}\
            {{% if r %}}<think>\n{{{{ r }}}}\n</think>\n\n{{% endif %}}{{{{ m.content or '' }}}}\
            {{% for t in m.tool_calls or [] %}}{{% set c = t.function %}}{call}{{% endfor %}}[/A]\n\
            {{% else %}}[U]{{{{ m.content }}}}[/U]\n{{% endif %}}{{% endfor %}}\
            {{% if add_generation_prompt %}}[A]{{% endif %}}"
        )
    });
    published.chain(small).map(|source| (source, OnceLock::new())).collect()
});

/// Returns the style that a number chooses.
pub fn style(choice: usize) -> &'static Style {
    let (source, style) = &STYLES[choice % STYLES.len()];
    style.get_or_init(|| Style::new(source).expect("a template"))
}
