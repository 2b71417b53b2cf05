//! Calls that wait for a thread that renders templates and compiles grammars: a cancel or a deadline ends the wait, and
//! the same call succeeds afterwards.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use realizar::engine::{CacheParams, Cancel, Chat, Conversation, ConversationParams, Model, ReplyParams};
use realizar::error::Error;

use crate::support::calls::with_template;
use crate::support::models;

const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>";

fn talk(model: &Arc<Model>, cancel: Option<Arc<Cancel>>) -> Conversation {
    let cache = CacheParams { capacity: 128, ..Default::default() };
    let mut talk =
        Conversation::new(model, Chat::new(&[], true), ConversationParams { cache, cancel, ..Default::default() })
            .unwrap();
    talk.add_text("user", "Once").unwrap();
    talk
}

fn replied(talk: &mut Conversation, cancel: Option<Arc<Cancel>>) -> Result<String, Error> {
    talk.reply(ReplyParams { max_tokens: 5, cancel, ..Default::default() })?;
    while !talk.step(None)? {}
    Ok(talk.view().past().chat.to_json())
}

#[test]
fn a_cancel_and_a_deadline_end_the_wait_for_a_thread() {
    let runtime = models::runtime(1);
    let file = with_template(TEMPLATE);
    let params = models::on(runtime.clone(), models::cpu());
    let model = Model::load(file.path(), params).unwrap();
    let expected = replied(&mut talk(&model, None), None).unwrap();
    let (begun, go_on) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        // A long task on the only thread.
        scope.spawn(|| {
            runtime.run_deep(&[], || {
                begun.wait();
                go_on.wait();
                Ok(())
            })
        });
        begun.wait();
        let (of_reply, of_talk) = (Arc::new(Cancel::default()), Arc::new(Cancel::default()));
        let mut talk = talk(&model, Some(of_talk.clone()));
        let before = talk.view().past().chat.to_json();
        for cancel in [&of_reply, &of_talk] {
            cancel.set_deadline(Some(Duration::from_millis(50)));
            let waited = replied(&mut talk, Some(of_reply.clone()));
            assert!(matches!(waited, Err(Error::Deadline)), "{waited:?}");
            cancel.reset();
            // From another thread, while it waits or before that.
            let fired = cancel.clone();
            let firing = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                fired.fire();
            });
            let waited = replied(&mut talk, Some(of_reply.clone()));
            assert!(matches!(waited, Err(Error::Cancelled)), "{waited:?}");
            firing.join().unwrap();
            cancel.reset();
            assert_eq!(talk.view().past().chat.to_json(), before);
        }
        go_on.wait();
        assert_eq!(replied(&mut talk, Some(of_reply)).unwrap(), expected);
    });
}
