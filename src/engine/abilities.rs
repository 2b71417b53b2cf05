//! What a model's chat template supports. Computed once at load, by rendering short probe conversations (`prompt`).

use super::cancel::Cancel;
use super::model::Model;
use super::prompt;
use crate::error::{Error, Result};
use crate::text::{Chat, PartKind};

/// Returns the template variables that switch reasoning.
pub(super) fn switches(is_on: bool) -> Vec<(&'static str, bool)> {
    vec![("enable_thinking", is_on), ("thinking", is_on)]
}

/// What a model's chat template supports.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// True if the model has a usable chat template.
    pub has_template: bool,
    /// True if the template writes the BOS token.
    pub writes_bos: bool,
    /// True if the template supports system messages.
    pub system: bool,
    /// True if the template supports tools, and the form of tool calls is known.
    pub tools: bool,
    /// True if replies may begin with reasoning.
    pub reasoning: bool,
    /// True if a template variable switches reasoning.
    pub reasoning_switch: bool,
    pub images: bool,
    pub audio: bool,
    pub video: bool,
}

impl Abilities {
    /// Renders the probes on threads of the runtime.
    ///
    /// # Errors
    /// `OutOfMemory`, `Cancelled` and `Deadline`. An ability whose probe the template rejects is false.
    pub fn find(model: &Model, cancel: Option<&Cancel>) -> Result<Abilities> {
        let mut found = Abilities::default();
        if model.chat_template().is_err() {
            return Ok(found);
        }
        let ask = |probe: fn(&Model) -> Result<bool>| {
            Cancel::check(&[cancel])?;
            match model.run_deep(&[cancel], || probe(model)) {
                Err(Error::InvalidArgument(_) | Error::Unsupported(_) | Error::TooComplex(_)) => Ok(false),
                result => result,
            }
        };
        let first = model.run_deep(&[cancel], || model.render_chat(&question()));
        found.has_template = match &first {
            // A template that rejects this probe may accept others.
            Ok(_) | Err(Error::InvalidArgument(_) | Error::TooComplex(_)) => true,
            // The template uses unsupported syntax.
            Err(Error::Unsupported(_)) => false,
            Err(other) => return Err(other.clone()),
        };
        // If this probe fails, most other probes would fail too. Only tools may have a separate template.
        if first.is_ok() {
            found.writes_bos = ask(writes_bos)?;
            found.system = ask(|model| model.chat_template()?.has_system())?;
            found.reasoning_switch = ask(has_switch)?;
            found.reasoning = found.reasoning_switch || ask(|model| Ok(model.reply_form()?.reasoning.is_some()))?;
            found.images = ask(|model| prompt::has_place(model, PartKind::Picture))?;
            found.audio = ask(|model| prompt::has_place(model, PartKind::Sound))?;
            found.video = ask(|model| prompt::has_place(model, PartKind::Video))?;
        }
        found.tools = found.has_template && ask(takes_tools)?;
        Ok(found)
    }
}

/// Returns the shortest conversation.
pub(super) fn question() -> Chat {
    Chat::new(&[("user", "?")], true)
}

fn writes_bos(model: &Model) -> Result<bool> {
    let text = model.render_chat(&question())?.plain()?;
    let bos = model.tokenizer().ok().and_then(|t| t.decode_token(t.bos()?, true).ok());
    Ok(bos.is_some_and(|bos| !bos.is_empty() && text.as_bytes().starts_with(&bos)))
}

fn has_switch(model: &Model) -> Result<bool> {
    let render = |is_on| model.render_chat(&question().prompt(0, 1, &switches(is_on)))?.plain();
    Ok(render(true)? != render(false)?)
}

fn takes_tools(model: &Model) -> Result<bool> {
    let tool = r#"{"type": "function", "function": {"name": "f", "description": "d", "parameters":
        {"type": "object", "properties": {"a": {"type": "string", "description": "d"}}}}}"#;
    let chat = format!(r#"{{"messages": [{{"role": "user", "content": "?"}}], "tools": [{tool}]}}"#);
    // If the template omits the tools, this call fails.
    model.render_chat(&Chat::parse(&chat, true)?)?;
    Ok(model.reply_form()?.calls.is_some())
}
