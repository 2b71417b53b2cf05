//! Compiled grammars of replies, cached: copying a compiled grammar for a reply is a hundred times faster than
//! compiling.

use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::abilities::question;
use crate::engine::model::Model;
use crate::error::{Error, Result};
use crate::grammar::{Grammar, GrammarText, Kind, Matcher};
use crate::text::{Chat, Reply, ReplyForm, Tool, ToolChoice};

/// Maximum number of cached grammars; the oldest one is evicted.
const MAX_KEPT: usize = 4;

/// A grammar for the content of a reply.
pub enum ContentGrammar<'a> {
    Text(GrammarText<'a>),
    /// May also be a grammar of the whole reply: `CompiledGrammar::of_reply_to`.
    Compiled(Arc<CompiledGrammar>),
}

/// An owned `GrammarText`.
#[derive(Clone, PartialEq, Eq)]
struct OwnText {
    kind: Kind,
    text: String,
    white_space: bool,
    best_effort: bool,
}

impl OwnText {
    fn new(source: &GrammarText) -> OwnText {
        let GrammarText { kind, text, white_space, best_effort } = *source;
        OwnText { kind, text: text.to_owned(), white_space, best_effort }
    }

    fn source(&self) -> GrammarText<'_> {
        let OwnText { kind, text, white_space, best_effort } = self;
        GrammarText { kind: *kind, text, white_space: *white_space, best_effort: *best_effort }
    }
}

/// The tool calls that a reply may contain.
#[derive(Clone, PartialEq)]
struct Calls {
    tools: Vec<Tool>,
    choice: ToolChoice,
    are_parallel: bool,
}

impl Calls {
    fn of(reply: &Reply) -> Calls {
        Calls { tools: reply.tools.clone(), choice: reply.choice.clone(), are_parallel: reply.parallel_calls }
    }

    /// Without tools the other call options have no effect.
    fn are_of(&self, reply: &Reply) -> bool {
        let is_same = self.choice == reply.choice && self.are_parallel == reply.parallel_calls;
        self.tools == reply.tools && (is_same || self.tools.is_empty())
    }
}

/// A compiled grammar of a reply, and all of its inputs.
struct ReplyGrammar {
    form: Arc<ReplyForm>,
    begins_in_reasoning: bool,
    may_reason: bool,
    calls: Calls,
    content: Option<OwnText>,
    white_space: bool,
    grammar: Arc<Grammar>,
}

impl ReplyGrammar {
    fn is_of(&self, reply: &Reply, content: Option<&GrammarText>, white_space: bool) -> bool {
        Arc::ptr_eq(&self.form, &reply.form)
            && self.begins_in_reasoning == reply.begins_in_reasoning
            && self.may_reason == reply.may_reason
            && self.white_space == white_space
            && self.content.as_ref().map(OwnText::source).as_ref() == content
            && self.calls.are_of(reply)
    }
}

/// The cached grammars of replies.
#[derive(Default)]
pub struct ReplyGrammars(Mutex<Vec<ReplyGrammar>>);

impl ReplyGrammars {
    /// Returns the grammar of a reply of `model`: reasoning, then tool calls or content. Compiles it unless cached.
    pub(super) fn of(
        &self,
        model: &Model,
        reply: &Reply,
        content: Option<&GrammarText>,
        white_space: bool,
    ) -> Result<Arc<Grammar>> {
        if let Some(grammar) = self.find(reply, content, white_space) {
            return Ok(grammar);
        }
        // Compiled without the lock, so that another conversation with a cached grammar need not wait.
        let grammar = Arc::new(model.reply_grammar(reply, content, white_space)?);
        self.keep(reply, content, white_space, &grammar);
        Ok(grammar)
    }

    fn find(&self, reply: &Reply, content: Option<&GrammarText>, white_space: bool) -> Option<Arc<Grammar>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|kept| kept.is_of(reply, content, white_space)).map(|kept| kept.grammar.clone())
    }

    fn keep(&self, reply: &Reply, content: Option<&GrammarText>, white_space: bool, grammar: &Arc<Grammar>) {
        let made = ReplyGrammar {
            form: reply.form.clone(),
            begins_in_reasoning: reply.begins_in_reasoning,
            may_reason: reply.may_reason,
            calls: Calls::of(reply),
            content: content.map(OwnText::new),
            white_space,
            grammar: grammar.clone(),
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MAX_KEPT {
            kept.remove(0);
        }
        kept.push(made);
    }
}

enum Source {
    Content(OwnText),
    /// A grammar of the whole reply, with these calls. `white_space`: true if the grammar allows white space between
    /// the parts of JSON.
    Reply {
        calls: Calls,
        white_space: bool,
    },
}

/// A grammar compiled by the caller, for samplers, jobs, and replies of any number of conversations.
pub struct CompiledGrammar {
    model: Arc<Model>,
    grammar: Arc<Grammar>,
    source: Source,
    replies: ReplyGrammars,
}

impl CompiledGrammar {
    /// Compiles a grammar, and the grammar of a reply to a short question with this content, so that a later reply
    /// compiles nothing. Recurses deeply.
    ///
    /// # Errors
    /// The errors of `Model::grammar`. If only the combination with reasoning does not compile, replies return that
    /// error.
    pub fn new(model: &Arc<Model>, source: &GrammarText) -> Result<CompiledGrammar> {
        let grammar = Arc::new(model.grammar(source)?);
        let (source, replies) = (Source::Content(OwnText::new(source)), ReplyGrammars::default());
        let compiled = CompiledGrammar { model: model.clone(), grammar, source, replies };
        let has_template = model.chat_template().is_ok();
        let found = if has_template { model.reply(&question()).map(Some) } else { Ok(None) };
        match found.and_then(|reply| reply.map(|reply| compiled.of_reply(model, &reply)).transpose()) {
            Ok(_) | Err(Error::InvalidArgument(_) | Error::Unsupported(_) | Error::TooComplex(_)) => Ok(compiled),
            Err(other) => Err(other),
        }
    }

    /// Compiles the grammar of the whole reply to a chat. Recurses deeply.
    pub fn of_reply_to(model: &Arc<Model>, chat: &Chat, white_space: bool) -> Result<CompiledGrammar> {
        let (reply, replies) = (model.reply(chat)?, ReplyGrammars::default());
        let grammar = replies.of(model, &reply, None, white_space)?;
        let source = Source::Reply { calls: Calls::of(&reply), white_space };
        Ok(CompiledGrammar { model: model.clone(), grammar, source, replies })
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Returns a matcher at the start of the grammar.
    pub fn matcher(&self) -> Result<Matcher> {
        self.grammar.matcher()
    }

    /// Returns the grammar of a reply of `model`.
    ///
    /// # Errors
    /// `InvalidArgument` if the reply has other tools than this grammar.
    pub(super) fn of_reply(&self, model: &Arc<Model>, reply: &Reply) -> Result<Arc<Grammar>> {
        match &self.source {
            Source::Content(_) if reply.is_content() && Arc::ptr_eq(model, &self.model) => Ok(self.grammar.clone()),
            Source::Content(content) => self.replies.of(model, reply, Some(&content.source()), false),
            Source::Reply { calls, white_space } if calls.are_of(reply) => {
                self.replies.of(model, reply, None, *white_space)
            }
            Source::Reply { .. } => Err(Error::invalid(
                "rz_reply_params.compiled_grammar is of other tools, tool_choice or parallel_tool_calls than the reply; \
                 it must be of the conversation's",
            )),
        }
    }
}
