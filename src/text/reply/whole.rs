//! An untagged object that is a tool call if it is the whole reply, optionally inside a Markdown fence. Uses `object`.

use serde_json::Value as Json;

use crate::text::reply::fits::fits;
use crate::text::reply::form::Member;
use crate::text::reply::object::{ObjectCall, Step};
use crate::text::reply::replies::Tool;

/// The state of an untagged reply.
#[derive(Default)]
pub struct WholeCall {
    text: String,
    place: Place,
    object: ObjectCall,
    /// JSON of the arguments.
    json: String,
    /// True inside an open fence.
    is_fenced: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Before the object: white space, or a fence and the name of a language.
    #[default]
    Front,
    Object,
    /// Only the end of the fence may follow.
    After,
}

const FENCE: &str = "```";

impl WholeCall {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of bytes held back.
    pub fn size(&self) -> usize {
        self.text.len() + self.object.size() + self.json.len()
    }

    /// Adds a character; `None` if it is not a call.
    pub fn push(&mut self, c: char, tools: &[Tool]) -> Option<()> {
        self.text.push(c);
        match self.place {
            Place::Front if c == '{' => {
                let front = self.text[..self.text.len() - 1].trim();
                self.is_fenced = match front.strip_prefix(FENCE) {
                    Some("" | "json" | "tool_call") => true,
                    _ => front.is_empty().then_some(false)?,
                };
                self.place = Place::Object;
                self.add(c, tools)
            }
            // Anything that may still become a fence, a language, or white space.
            Place::Front => {
                let front = self.text.trim();
                let is_fence = ["json", "tool_call"].iter().any(|name| format!("{FENCE}{name}").starts_with(front));
                (is_fence && self.text.len() <= 64).then_some(())
            }
            Place::Object => self.add(c, tools),
            Place::After if c.is_whitespace() => Some(()),
            Place::After => {
                let following = self.text.trim_end();
                let ticks = following.len() - following.trim_end_matches('`').len();
                (self.is_fenced && c == '`' && ticks <= FENCE.len()).then_some(())
            }
        }
    }

    fn add(&mut self, c: char, tools: &[Tool]) -> Option<()> {
        match self.object.push(c, &Member::Value("name".to_owned()), "arguments", tools, &mut self.json) {
            Step::More => self.object.may_be_call().then_some(()),
            Step::Done => {
                self.place = Place::After;
                Some(())
            }
            Step::Failed => None,
        }
    }

    /// Returns the name and arguments of a complete call, if its tool takes them.
    pub fn call(&self, tools: &[Tool]) -> Option<(&str, &str)> {
        let name = self.object.name().filter(|_| self.place == Place::After)?;
        // Without arguments, or with other members, it is more likely an answer in JSON.
        let object = &self.text[self.text.find('{')?..=self.text.rfind('}')?];
        let members: serde_json::Map<String, Json> = serde_json::from_str(object).ok()?;
        let is_known = |name: &String| ["name", "arguments", "parameters", "type", "id"].contains(&&name[..]);
        if !members.keys().all(is_known) || !["arguments", "parameters"].iter().any(|name| members.contains_key(*name))
        {
            return None;
        }
        let tool = tools.iter().find(|tool| tool.name == name)?;
        let arguments: Json = serde_json::from_str(&self.json).ok()?;
        fits(&arguments, &tool.parameters, &tool.parameters).then_some((name, &self.json))
    }
}
