//! A prompt: tokens and media in order, for any number of sessions of a model. It is created from parts, or from a
//! rendered conversation, by replacing the chat template's placeholders with media.

use std::ops::Range;
use std::sync::Arc;

use super::cancel::Cancel;
use super::media::item::{Media, MediaKind, MediaPart};
use super::model::Model;
use super::runs::{MediaRuns, Run, Text};
use crate::error::{Error, Result, secured, try_vec};
use crate::graph::step::MEDIA_ROW;
use crate::text::{Chat, KnownTexts, MarkedText, PartKind, Reply};

/// Placeholders in chat templates for images, audio and video.
const PLACEHOLDERS: [(PartKind, &[&str]); 3] = [
    (PartKind::Picture, &PICTURES),
    (PartKind::Sound, &["<|AUDIO|>", "[AUDIO]", "<|audio|>", "<|audio_pad|>"]),
    // Frame pairs may have their own surrounding tokens, which replace the template's.
    (PartKind::Video, &["<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>"]),
];

const PICTURES: [&str; 11] = [
    "<|image_pad|>",
    "<start_of_image>",
    "[IMG]",
    "<IMG_CONTEXT>",
    "<image>",
    "<|image|>",
    "<image_soft_token>",
    "<|media_pad|>",
    "<|imgpad|>",
    "<|IMAGE_PLACEHOLDER|>",
    "<|IMAGE|>",
];

/// A part of a prompt.
pub enum PromptPart<'a> {
    Tokens(&'a [u32]),
    Media(&'a Arc<Media>),
}

pub struct Prompt {
    model: Arc<Model>,
    tokens: Vec<u32>,
    runs: MediaRuns,
}

/// A rendered conversation.
pub(super) struct Rendered {
    pub text: MarkedText,
    /// Placeholders of the media in the text.
    pub places: Vec<Range<usize>>,
    /// Index of the media item at each placeholder.
    pub media: Vec<usize>,
}

impl Prompt {
    /// Concatenates parts. `bare`: true to omit the model's tokens around and between media rows.
    pub fn new(model: &Arc<Model>, parts: &[PromptPart], bare: bool) -> Result<Prompt> {
        let size = |part: &PromptPart| match part {
            PromptPart::Tokens(tokens) => tokens.len(),
            PromptPart::Media(media) => media.layout.n_tokens(),
        };
        let room = parts.iter().map(size).fold(0, usize::saturating_add);
        let mut list = List { tokens: try_vec("a prompt", room)?, runs: Vec::new() };
        let vocab = model.network()?.program.vocab;
        for (i, part) in parts.iter().enumerate() {
            match part {
                PromptPart::Tokens(ids) => {
                    if let Some((at, id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= vocab) {
                        let what = format!("token {id} at index {at} is outside the vocabulary of {vocab}");
                        return Err(Error::invalid(what).of_entry(i));
                    }
                    list.tokens.extend_from_slice(ids);
                }
                PromptPart::Media(media) => {
                    check_model(model, media).map_err(|e| e.of_entry(i))?;
                    let parts = media.layout.parts.iter();
                    list.push(media, parts.filter(|part| !bare || matches!(part, MediaPart::Rows(_))));
                }
            }
        }
        Ok(list.prompt(model))
    }

    /// Returns the prompt of a conversation; its parts refer to `media` by index.
    ///
    /// # Errors
    /// `Cancelled` or `Deadline` if one of `cancels` fires.
    pub fn of_chat(
        model: &Arc<Model>,
        chat: &Chat,
        media: &[Arc<Media>],
        cancels: &[Option<&Cancel>],
    ) -> Result<Prompt> {
        check_media(model, &Chat::media_of(chat.messages()), media)?;
        let rendered = model.run_deep(cancels, || render(model, chat))?;
        Prompt::of_rendered(model, &rendered, media, cancels, None)
    }

    /// Like `of_chat`, for a rendered conversation.
    pub(super) fn of_rendered(
        model: &Arc<Model>,
        rendered: &Rendered,
        media: &[Arc<Media>],
        cancels: &[Option<&Cancel>],
        known: Option<&mut KnownTexts>,
    ) -> Result<Prompt> {
        let Rendered { text, places, media: order } = rendered;
        let order: Vec<&Arc<Media>> = order.iter().filter_map(|i| media.get(*i)).collect();
        let tokenizer = model.tokenizer()?;
        let check = || Cancel::check(cancels);
        let encode = || tokenizer.encode_chat_around(&check, text, places, known);
        let texts = secured("tokens", 64 * text.text.len(), encode)?;
        let size = texts.iter().map(Vec::len).chain(order.iter().map(|media| media.layout.n_tokens())).sum();
        let mut list = List { tokens: try_vec("a prompt", size)?, runs: Vec::new() };
        for (i, tokens) in texts.iter().enumerate() {
            list.tokens.extend_from_slice(tokens);
            let (Some(media), Some(next_text)) = (order.get(i), texts.get(i + 1)) else { continue };
            // The template may have written the surrounding tokens itself.
            let parts = &media.layout.parts[..];
            let ahead = parts.iter().position(|part| matches!(part, MediaPart::Rows(_))).unwrap_or(0);
            let last = parts.iter().rposition(|part| matches!(part, MediaPart::Rows(_))).map_or(0, |last| last + 1);
            let [before, after] = [&parts[..ahead], &parts[last..]].map(|parts| {
                let id = |part: &MediaPart| if let MediaPart::Token(id) = part { Some(*id) } else { None };
                parts.iter().filter_map(id).collect::<Vec<u32>>()
            });
            let from = if list.tokens.ends_with(&before) { ahead } else { 0 };
            let to = if next_text.starts_with(&after) { last } else { parts.len() };
            list.push(media, &parts[from..to]);
        }
        Ok(list.prompt(model))
    }

    /// Returns the tokens, with `MEDIA_ROW` for each media row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Appends tokens of the vocabulary.
    pub(super) fn extend(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Returns all tokens but the last.
    pub(super) fn ahead_of_last(&self) -> Result<Text<'_>> {
        let none = || Error::invalid("the messages make no token");
        let (_, tokens) = self.tokens.split_last().ok_or_else(none)?;
        Ok(Text { tokens, runs: &self.runs, from: 0 })
    }

    /// Returns the tokens and media from index `first` on, for a session of `model`.
    pub(crate) fn from(&self, first: usize, model: &Arc<Model>) -> Result<Text<'_>> {
        if !Arc::ptr_eq(model, &self.model) {
            return Err(Error::Mismatch("the prompt is one of another model".to_owned()));
        }
        let Some(tokens) = self.tokens.get(first..) else {
            return Err(Error::invalid(format!("the prompt has {} tokens, none is number {first}", self.tokens.len())));
        };
        self.runs.check_cut(first)?;
        Ok(Text { tokens, runs: &self.runs, from: first })
    }
}

/// Rejects media of another model, media that no part uses, and parts with a media item of another kind. `parts`: from
/// `Chat::media_of`.
pub(super) fn check_media(model: &Model, parts: &[(usize, PartKind)], media: &[Arc<Media>]) -> Result<()> {
    for (i, item) in media.iter().enumerate() {
        let mut kinds = parts.iter().filter(|(number, _)| *number == i).map(|(_, kind)| *kind).peekable();
        if kinds.peek().is_none() {
            return Err(Error::invalid("no part of a message uses this media item").of_entry(i));
        }
        check_model(model, item).map_err(|e| e.of_entry(i))?;
        let own = match item.kind {
            MediaKind::Audio => PartKind::Sound,
            MediaKind::Video => PartKind::Video,
            MediaKind::Image | MediaKind::Text | MediaKind::Vector => PartKind::Picture,
        };
        if let Some(kind) = kinds.find(|kind| *kind != own) {
            let what = format!("a part that is a {kind:?} has a media item of another kind").to_lowercase();
            return Err(Error::invalid(what).of_entry(i));
        }
    }
    Ok(())
}

fn check_model(model: &Model, media: &Media) -> Result<()> {
    if media.kind == MediaKind::Vector {
        return Err(Error::unsupported(
            "the vector of a picture in a prompt: it is to be compared with those of texts",
        ));
    }
    match Arc::ptr_eq(&media.program, &model.network()?.program) {
        true => Ok(()),
        false => Err(Error::Mismatch("the media item belongs to another model".to_owned())),
    }
}

/// A prompt under construction.
struct List {
    tokens: Vec<u32>,
    runs: Vec<Run>,
}

impl List {
    /// Appends parts of a media item, including all its rows.
    fn push<'p>(&mut self, media: &Arc<Media>, parts: impl IntoIterator<Item = &'p MediaPart>) {
        let mut first = 0;
        for part in parts {
            match *part {
                MediaPart::Token(id) => self.tokens.push(id),
                MediaPart::Rows(len) => {
                    self.runs.push(Run { media: media.clone(), first, place: self.tokens.len(), len });
                    self.tokens.extend(std::iter::repeat_n(MEDIA_ROW, len));
                    first += len;
                }
            }
        }
    }

    fn prompt(self, model: &Arc<Model>) -> Prompt {
        Prompt { model: model.clone(), tokens: self.tokens, runs: MediaRuns::new(self.runs) }
    }
}

/// Returns the possible replies to a conversation with media.
pub fn reply_to_chat(model: &Model, chat: &Chat) -> Result<Reply> {
    model.reply_to(chat, &render(model, chat)?.text)
}

/// Renders a conversation and finds the placeholders of its media.
pub(super) fn render(model: &Model, chat: &Chat) -> Result<Rendered> {
    let (media, kinds): (Vec<usize>, Vec<PartKind>) = Chat::media_of(chat.messages()).into_iter().unzip();
    if kinds.is_empty() {
        return Ok(Rendered { text: model.render_chat(chat)?, places: Vec::new(), media });
    }
    if let Ok(text) = model.render_chat(&chat.with_bare_media())
        && let Some(places) = placeholders(&text, &kinds)
    {
        return Ok(Rendered { text, places, media });
    }
    // A template without support for parts.
    let (chat, marker) = chat.with_markers();
    let text = model.render_chat(&chat)?;
    let places = places(&text, &text.marks.mark(&marker));
    match places.len() == kinds.len() {
        true => Ok(Rendered { text, places, media }),
        false => Err(Error::unsupported("the chat template leaves out a picture, a sound or a video")),
    }
}

/// True if the template writes a placeholder for this kind of part.
pub(super) fn has_place(model: &Model, kind: PartKind) -> Result<bool> {
    let part = format!(r#"{{"type": "{}", "media": 0}}"#, kind.name());
    let messages = format!(r#"[{{"role": "user", "content": [{part}, {{"type": "text", "text": "?"}}]}}]"#);
    let chat = Chat::parse_with_media(&format!(r#"{{"messages": {messages}}}"#), true, Some(1))?;
    let text = model.render_chat(&chat.with_bare_media())?;
    Ok(placeholders(&text, &[kind]).is_some())
}

/// Returns all occurrences of `what` in a rendered conversation.
fn places(text: &MarkedText, what: &str) -> Vec<Range<usize>> {
    text.text.match_indices(what).map(|(at, found)| at..at + found.len()).collect()
}

/// Returns the placeholders that the template wrote for parts of these kinds, in order; `None` if some are missing.
/// Message texts are marked, so a placeholder outside them is the template's.
fn placeholders(text: &MarkedText, kinds: &[PartKind]) -> Option<Vec<Range<usize>>> {
    let found = |(kind, all): (PartKind, &[&str])| {
        let n = kinds.iter().filter(|one| **one == kind).count();
        let places = all.iter().map(|what| places(text, what)).find(|places| n == 0 || places.len() == n)?;
        Some(places.into_iter().filter(|_| n > 0).map(|place| (kind, place)).collect::<Vec<_>>())
    };
    let mut all = PLACEHOLDERS.into_iter().map(found).collect::<Option<Vec<_>>>()?.concat();
    all.sort_by_key(|(_, place)| place.start);
    let is_in_order = all.iter().map(|(kind, _)| kind).eq(kinds);
    is_in_order.then(|| all.into_iter().map(|(_, place)| place).collect())
}
