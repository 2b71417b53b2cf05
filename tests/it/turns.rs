//! Conversations with tools over several turns: for every published template, the next prompt accepts the messages that
//! the library makes from a reply. The oracle is the template, which writes names, arguments, ids and results, or
//! rejects them.

use std::sync::Arc;

use realizar::text::{
    CallIds, Chat, ChatTemplate, EventKind, NewIds, Reply, ReplyForm, ReplyParser, Stops, find_reply_form, render_chat,
};
use serde_json::{Value as Json, json};

use crate::support::save::MODEL;

/// Templates that know no tools.
const WITHOUT_TOOLS: [&str; 4] = [
    "HuggingFaceTB-SmolLM3-3B",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "deepseek-ai-DeepSeek-V3.1",
    "microsoft-Phi-3.5-mini-instruct",
];

struct Talk {
    template: ChatTemplate,
    form: Arc<ReplyForm>,
    messages: Vec<Json>,
}

impl Talk {
    fn new(source: &str) -> Talk {
        let template = ChatTemplate::new(source, "<s>".into(), "</s>".into());
        let form = Arc::new(find_reply_form(&template).unwrap());
        Talk { template, form, messages: Vec::new() }
    }

    fn chat(&self, more: &[Json], prompt: bool) -> Chat {
        let tool = |name: &str| {
            let city = json!({"type": "string", "description": "Where"});
            json!({"type": "function", "function": {"name": name, "description": "Tells it", "parameters":
                {"type": "object", "properties": {"city": city}, "required": ["city"]}}})
        };
        let messages = [&self.messages, more].concat();
        let chat = json!({"messages": messages, "tools": [tool("weather"), tool("find")]});
        Chat::parse(&chat.to_string(), prompt).unwrap()
    }

    fn render(&self, more: &[Json], prompt: bool) -> Result<String, String> {
        let text = render_chat(&self.template, self.form.calls.as_ref(), &self.chat(more, prompt));
        text.and_then(|text| text.plain()).map_err(|e| e.to_string())
    }

    /// A reply with tool calls that have the library's ids.
    fn calls(&self, cities: &[&str]) -> Json {
        let mut ids = NewIds::new(self.form.call_ids, &self.messages);
        let call = |(i, city): (usize, &&str)| {
            let name = ["weather", "find"][i];
            let function = json!({"name": name, "arguments": json!({"city": city}).to_string()});
            json!({"id": ids.next(name, None), "type": "function", "function": function})
        };
        let calls: Vec<Json> = cities.iter().enumerate().map(call).collect();
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    }

    /// The calls that the parser reads from the template's text of a reply, each with its id, if that text begins with
    /// the prompt.
    fn read_back(&self, said: &Json) -> Option<Vec<(String, String, Json)>> {
        let prompt = self.render(&[], true).unwrap();
        let written = self.render(std::slice::from_ref(said), false).unwrap();
        let written = written.strip_prefix(&prompt)?;
        let chat = self.chat(&[], true);
        let text = render_chat(&self.template, self.form.calls.as_ref(), &chat).unwrap();
        let mut parser =
            ReplyParser::new(Arc::new(Reply::new(self.form.clone(), &chat, &text).unwrap()), Stops::default());
        for byte in written.bytes() {
            parser.push(MODEL.tokenizer().unwrap(), 3 + u32::from(byte)).unwrap();
        }
        parser.end(true).unwrap();
        let mut calls: Vec<(String, String, String)> = Vec::new();
        while let Some(event) = parser.next(|event| Ok(event.clone())).unwrap() {
            match event.kind {
                EventKind::ToolId => calls.push((event.text, String::new(), String::new())),
                EventKind::ToolName => calls.last_mut().unwrap().1 = event.text,
                EventKind::ToolArguments => calls.last_mut().unwrap().2 += &event.text,
                EventKind::Reasoning | EventKind::Content | EventKind::End => {}
            }
        }
        Some(calls.into_iter().map(|(id, name, text)| (id, name, serde_json::from_str(&text).unwrap())).collect())
    }
}

fn of_calls(said: &Json) -> Vec<(String, String, Json)> {
    let text = |value: &Json| value.as_str().unwrap().to_owned();
    let read = |call: &Json| {
        let function = &call["function"];
        (text(&call["id"]), text(&function["name"]), serde_json::from_str(&text(&function["arguments"])).unwrap())
    };
    said["tool_calls"].as_array().unwrap().iter().map(read).collect()
}

fn user(text: &str) -> Json {
    json!({"role": "user", "content": text})
}

fn result(id: &Json, text: &str) -> Json {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

/// Replies with a call, with two, and with reasoning, content and a call, then an answer, a reply without anything, and
/// one of reasoning alone.
fn talk(talk: &mut Talk) -> Result<usize, String> {
    let mut read = 0;
    let parallel = talk.form.calls.as_ref().is_some_and(|calls| calls.between.is_some());
    talk.messages = vec![json!({"role": "system", "content": "Be kind."}), user("Warm?")];
    for (turn, cities) in [&["Bern"][..], &["Rome", "Oslo"], &["Lima"]].into_iter().enumerate() {
        let mut said = talk.calls(if parallel { cities } else { &cities[..1] });
        if turn == 2 {
            (said["content"], said["reasoning_content"]) = (json!("Let me look."), json!("So it is."));
        }
        if let Some(calls) = talk.read_back(&said) {
            read += usize::from(calls == of_calls(&said));
        }
        talk.messages.push(said.clone());
        for call in said["tool_calls"].as_array().unwrap() {
            talk.messages.push(result(&call["id"], &format!("result {turn}")));
        }
        let text = talk.render(&[], true).map_err(|e| format!("turn {turn}: {e}"))?;
        let last = of_calls(&said).into_iter().map(|(.., arguments)| arguments["city"].as_str().unwrap().to_owned());
        for word in last.chain([format!("result {turn}")]) {
            if !text.contains(&word) {
                return Err(format!("turn {turn} lacks {word:?}"));
            }
        }
    }
    for said in
        [json!({"content": "It is."}), json!({"content": ""}), json!({"content": "", "reasoning_content": "Hm"})]
    {
        let mut message = json!({"role": "assistant"});
        message.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        talk.messages.extend([message, user("And now?")]);
        talk.render(&[], true).map_err(|e| format!("behind {said}: {e}"))?;
    }
    Ok(read)
}

#[test]
fn each_published_template_takes_its_own_replies() {
    let json: Json = serde_json::from_str(include_str!("../data/text/published.json")).unwrap();
    let (mut wrong, mut read) = (Vec::new(), 0);
    for (name, template) in json["templates"].as_object().unwrap() {
        let mut each = Talk::new(template["source"].as_str().unwrap());
        each.messages = vec![user("Warm?")];
        match each.render(&[], true) {
            Err(why) if why.contains("leaves out tools[0]") && WITHOUT_TOOLS.contains(&&name[..]) => continue,
            Err(why) => wrong.push(format!("{name}: {why}")),
            Ok(_) => match talk(&mut each) {
                Ok(n) => read += n,
                Err(why) => wrong.push(format!("{name}: {why}")),
            },
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{read} replies read back");
    assert!(read >= 40, "{read}");
}

/// Calls of other servers, with whatever ids, and roles that do not alternate.
#[test]
fn each_published_template_takes_histories_from_elsewhere() {
    let json: Json = serde_json::from_str(include_str!("../data/text/published.json")).unwrap();
    let mut wrong = Vec::new();
    let system = || json!({"role": "system", "content": "Note this."});
    for (name, template) in json["templates"].as_object().unwrap() {
        let mut talk = Talk::new(template["source"].as_str().unwrap());
        if !WITHOUT_TOOLS.contains(&&name[..]) {
            for (id, content) in
                [("call_7QxZ2mN4kP8sR1tV6wY3bC5d", Json::Null), ("toolu_01", json!("I look.")), ("", json!(""))]
            {
                let function = json!({"name": "find", "arguments": "{\"city\": \"Bern\"}"});
                let call = json!({"id": id, "type": "function", "function": function});
                let said = json!({"role": "assistant", "content": content, "tool_calls": [call]});
                talk.messages = vec![system(), user("Warm?"), said, result(&json!(id), "result")];
                let text = talk.render(&[], true);
                if !text.as_ref().is_ok_and(|text| text.contains("Bern") && text.contains("result")) {
                    wrong.push(format!("{name}, {id:?}: {:?}", text.err()));
                }
            }
        }
        let answer = json!({"role": "assistant", "content": "It is."});
        let open = [system(), user("Warm?"), system()];
        let later = [user("Warm?"), answer.clone(), system(), user("And now?")];
        let between = [user("Warm?"), system(), answer, user("And now?")];
        for messages in [&open[..], &later, &between, &[user("Warm?"), user("And now?")]] {
            let chat = json!({"messages": messages});
            let text = talk.template.render(&Chat::parse(&chat.to_string(), true).unwrap());
            let text = text.and_then(|text| text.plain()).map_err(|e| e.to_string());
            let has_all = |text: &String| messages.iter().all(|m| text.contains(m["content"].as_str().unwrap()));
            if !text.as_ref().is_ok_and(has_all) {
                wrong.push(format!("{name}, {chat}: {text:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tool calls for a template that writes the id instead of the name, like Kimi K2.5's, and for a template that lists
/// tools but writes no calls: its tags count as the template's text, its arguments do not.
#[test]
fn calls_are_written_as_models_write_them() {
    let turns = "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}CALLS{% endif %}{{ m.content if m.content is string }}\
        {{ ' of ' ~ m.tool_call_id if m.role == 'tool' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    let by_id = turns.replace("CALLS", "<|tool_calls_section_begin|>{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}\
        <|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>");
    let mut kimi = Talk::new(&format!("{{{{ tools | tojson }}}}{by_id}"));
    assert_eq!(kimi.form.call_ids, CallIds::Numbered);
    kimi.messages = vec![user("Warm?")];
    for turn in 0..2 {
        let said = kimi.calls(&["Bern"]);
        let id = format!("functions.weather:{turn}");
        assert_eq!(said["tool_calls"][0]["id"], json!(id));
        kimi.messages.extend([said, result(&json!(id), "r")]);
        let text = kimi.render(&[], true).unwrap();
        assert!(text.ends_with(&format!("<tool>r of {id}<assistant>")), "{text}");
    }
    // Of another server.
    kimi.messages[1]["tool_calls"][0]["id"] = json!("toolu_01");
    kimi.messages[2]["tool_call_id"] = json!("toolu_01");
    assert!(kimi.render(&[], true).unwrap().contains("r of functions.weather:0"));

    let mut lfm = Talk::new(&format!("List of tools: [{{{{ tools | tojson }}}}]{}", turns.replace("CALLS", "")));
    lfm.messages = vec![user("Warm?")];
    let mut said = lfm.calls(&["Bern", "<|tool_call_end|> \"x\""]);
    said["content"] = json!("I look.");
    lfm.messages.extend([said.clone(), result(&said["tool_calls"][0]["id"], "r")]);
    let written = "I look.<|tool_call_start|>[weather(city=\"Bern\"), find(city=\"<|tool_call_end|> \\\"x\\\"\")]<|tool_call_end|>";
    let text = render_chat(&lfm.template, lfm.form.calls.as_ref(), &lfm.chat(&[], true)).unwrap();
    assert!(text.plain().unwrap().contains(written), "{}", text.plain().unwrap());
    // The argument's tag is marked as the conversation's, the tags around the calls are not.
    assert_eq!(text.text.matches("<|tool_call_end|>").count(), 1);
    assert_eq!(text.text.matches("<|tool_call_start|>[").count(), 1);
}

/// Members of messages are OpenAI's or those that the template reads.
#[test]
fn unknown_members_of_messages_are_named() {
    let template = ChatTemplate::new(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.mood }}{% endfor %}",
        String::new(),
        String::new(),
    );
    let render = |message: Json| {
        let chat = Chat::parse(&json!({"messages": [message]}).to_string(), true);
        chat.and_then(|chat| template.render(&chat)?.plain()).map_err(|e| e.to_string())
    };
    assert_eq!(render(json!({"role": "user", "content": "a", "mood": "!", "name": "n"})).unwrap(), "<user>a!");
    assert_eq!(render(json!({"role": "user", "content": "a", "moods": null})).unwrap(), "<user>a");
    for name in ["nmae", "moods", "moo", "contents"] {
        let error = render(json!({"role": "user", "content": "a", name: "b"})).unwrap_err();
        assert!(error.contains(&format!("{name:?}")), "{error}");
    }
}
