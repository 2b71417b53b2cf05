//! Compiles the grammars of replies with tools. Loosens only the parts that do not compile, and, if all parts together
//! are too complex, the largest ones.

use std::cmp::Reverse;

use llguidance::api::TopLevelGrammar;

use super::effort::{Effort, Steps};
use super::schema::Looseness;
use super::tools::{Failed, ToolSchema};
use super::{Grammar, GrammarText, Grammars, is_of_grammar, next_looseness, note, source};
use crate::error::{Error, Result};
use crate::text::{Reply, Tokenizer};

/// Maximum number of tools of a reply: before a tool's name the parser keeps two items per tool, out of 2000.
const MAX_TOOLS: usize = 900;

/// What does not compile.
#[derive(Clone, Copy)]
enum Cause {
    /// A tool, or the content, cannot be written.
    Part,
    /// All parts can be written, but are too long together.
    Length,
    /// The parser takes too long.
    Parser,
}

/// How to find the parts that do not compile; the cheaper way first.
#[derive(Clone, Copy)]
enum Check {
    /// Write the grammar of the part.
    Written,
    /// Also compile it.
    Compiled,
}

impl Grammars {
    /// Compiles the grammar of a reply: reasoning, then tool calls or content, optionally with a grammar. Omits
    /// keywords of non-strict tools that cannot be compiled.
    ///
    /// # Errors
    /// The errors of `compile`, with the name of the tool.
    pub fn compile_reply(
        &self,
        reply: &Reply,
        content: Option<&GrammarText>,
        white_space: bool,
        tokenizer: &Tokenizer,
    ) -> Result<Grammar> {
        if reply.tools.len() > MAX_TOOLS {
            let what = format!("the request has {} tools; it must have at most {MAX_TOOLS}", reply.tools.len());
            return Err(Error::TooComplex(what));
        }
        let tools = vec![Looseness::Exact; reply.tools.len()];
        let sizes = vec![None; reply.tools.len()];
        let content_looseness = Looseness::Exact;
        let mut request = ReplyRequest { reply, content, white_space, tokenizer, tools, sizes, content_looseness };
        let (mut written, mut compiled) = (Some(Check::Written), Some(Check::Compiled));
        loop {
            let mut cause = Cause::Part;
            let error = match self.reply_at(&request, &mut cause) {
                Ok(grammar) => return Ok(grammar),
                Err(Failed { tool, error }) if is_of_grammar(&error) => match tool {
                    Some(i) => error.of(&request.name(i)),
                    None => error,
                },
                Err(failed) => return Err(failed.error),
            };
            let check = match cause {
                Cause::Part => written.take(),
                Cause::Length => None,
                Cause::Parser => compiled.take(),
            };
            let is_looser = check.map(|check| self.check_each(&mut request, check)).transpose()?;
            if is_looser != Some(true) {
                request.loosen_largest(error)?;
            }
        }
    }

    fn reply_at(&self, request: &ReplyRequest, cause: &mut Cause) -> std::result::Result<Grammar, Failed> {
        let ReplyRequest { reply, content, white_space, tokenizer, .. } = *request;
        let (steps, mut tools) = (Steps::default(), Vec::new());
        for (i, (tool, looseness)) in reply.tools.iter().zip(&request.tools).enumerate() {
            let tool = ToolSchema::new(tool, *looseness, &steps);
            tools.push(tool.map_err(|error| Failed { tool: Some(i), error })?);
        }
        let mut effort = Effort::new(content.is_some_and(|content| content.best_effort));
        let mut failed = None;
        let parser = self.compiled(|| {
            let read = |content| source::read(content, tokenizer, request.content_looseness, &mut effort);
            let content = content.map(read).transpose()?;
            match source::read_reply(reply, &tools, content, white_space, tokenizer) {
                Ok(grammar) => {
                    *cause = Cause::Parser;
                    Ok(grammar)
                }
                Err(Failed { tool, error }) => {
                    let is_long = tool.is_none() && matches!(error, Error::TooComplex(_));
                    *cause = if is_long { Cause::Length } else { Cause::Part };
                    failed = tool;
                    Err(error)
                }
            }
        });
        let parser = parser.map_err(|error| Failed { tool: failed, error })?;
        let notes = tools.iter().zip(&request.tools).filter_map(|(tool, looseness)| {
            note(&format!("the schema of the tool {:?}", tool.name), *looseness, &tool.effort.borrow())
        });
        let notes = notes.chain(note("the schema", request.content_looseness, &effort));
        Ok(self.grammar(parser, notes))
    }

    /// Loosens each part, if allowed, until it compiles on its own. Returns true if a part was loosened.
    ///
    /// # Errors
    /// The first error of a part that may not be loosened.
    fn check_each(&self, request: &mut ReplyRequest, check: Check) -> Result<bool> {
        let before = (request.tools.clone(), request.content_looseness);
        let tried = |grammar: &mut dyn FnMut() -> Result<TopLevelGrammar>| match check {
            Check::Written => grammar().map(|_| ()),
            Check::Compiled => self.compiled(grammar).map(|_| ()),
        };
        if let Some(content) = request.content {
            loop {
                let mut effort = Effort::new(content.best_effort);
                let looseness = request.content_looseness;
                match tried(&mut || source::read(content, request.tokenizer, looseness, &mut effort)) {
                    Ok(()) => break,
                    Err(error) => {
                        request.content_looseness =
                            next_looseness(looseness, content.best_effort, effort.replaced(error))?;
                    }
                }
            }
        }
        for i in 0..request.tools.len() {
            loop {
                let (looseness, may_be) = (request.tools[i], !request.reply.tools[i].is_strict);
                let error = match ToolSchema::new(&request.reply.tools[i], looseness, &Steps::default()) {
                    Ok(tool) => match tried(&mut || request.alone(&tool)) {
                        Ok(()) => break,
                        Err(error) => tool.effort.borrow_mut().replaced(error),
                    },
                    Err(error) => error,
                };
                request.tools[i] = next_looseness(looseness, may_be, error.of(&request.name(i)))?;
            }
        }
        Ok(before != (request.tools.clone(), request.content_looseness))
    }
}

/// The requested grammar of a reply, and the looseness of its parts.
struct ReplyRequest<'a> {
    reply: &'a Reply,
    content: Option<&'a GrammarText<'a>>,
    white_space: bool,
    tokenizer: &'a Tokenizer,
    tools: Vec<Looseness>,
    /// Bytes of each tool's grammar, if written at the current looseness.
    sizes: Vec<Option<usize>>,
    content_looseness: Looseness,
}

impl ReplyRequest<'_> {
    fn name(&self, tool: usize) -> String {
        format!("the tool {:?}", self.reply.tools[tool].name)
    }

    /// Returns the grammar of a reply with only one of the tools.
    fn alone(&self, tool: &ToolSchema) -> Result<TopLevelGrammar> {
        let tools = std::slice::from_ref(tool);
        let grammar = source::read_reply(self.reply, tools, None, self.white_space, self.tokenizer);
        grammar.map_err(|failed| failed.error)
    }

    /// Returns the bytes of the content's grammar; 0 if not written.
    fn content_size(&self) -> usize {
        let read = |content: &GrammarText| {
            let mut effort = Effort::new(content.best_effort);
            source::read(content, self.tokenizer, self.content_looseness, &mut effort).ok()
        };
        self.content.and_then(read).as_ref().map_or(0, source::length)
    }

    fn tool_size(&mut self, i: usize) -> usize {
        if let Some(size) = self.sizes[i] {
            return size;
        }
        let tool = ToolSchema::new(&self.reply.tools[i], self.tools[i], &Steps::default());
        let size = tool.and_then(|tool| self.alone(&tool)).as_ref().map_or(0, source::length);
        *self.sizes[i].insert(size)
    }

    /// Loosens the largest of the parts that may be loosened, up to half of their total size.
    ///
    /// # Errors
    /// `error` if there are none.
    fn loosen_largest(&mut self, error: Error) -> Result<()> {
        let mut parts: Vec<(usize, Option<usize>)> = Vec::new();
        let reply = self.reply;
        for (i, tool) in reply.tools.iter().enumerate() {
            if !tool.is_strict && self.tools[i].next().is_some() {
                parts.push((self.tool_size(i), Some(i)));
            }
        }
        if self.content.is_some_and(|content| content.best_effort) && self.content_looseness.next().is_some() {
            parts.push((self.content_size(), None));
        }
        if parts.is_empty() {
            return Err(match self.reply.tools.len() {
                0 => error,
                n => error.of(&format!("the grammar of {n} tools")),
            });
        }
        parts.sort_by_key(|(size, _)| Reverse(*size));
        let half = parts.iter().map(|(size, _)| size).sum::<usize>() / 2;
        let mut sum = 0;
        for (size, part) in parts {
            let looseness = match part {
                Some(i) => {
                    self.sizes[i] = None;
                    &mut self.tools[i]
                }
                None => &mut self.content_looseness,
            };
            *looseness = looseness.next().unwrap_or(*looseness);
            sum += size;
            if sum > half {
                break;
            }
        }
        Ok(())
    }
}
