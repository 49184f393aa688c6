use super::*;
use crate::channels::Message;

// Red when `unsubscribe` does nothing, and when a script's messages are not taken.
#[test]
fn a_message_counts_its_receivers_and_is_handed_out_once() {
    let mut store = Store::new();
    let script = Script::new("return redis.call('PUBLISH', 'inbox', 'hello')");
    let call = Call {
        script: &script,
        keys: &[],
        args: &[],
    };
    let mut publish = |change: fn(&mut Store)| {
        change(&mut store);
        store.run(call, NOW)
    };
    for (receivers, change) in [
        (0, (|_| {}) as fn(&mut Store)),
        (1, |store| store.subscribe(b"inbox")),
        (2, |store| store.subscribe(b"inbox")),
        (2, |store| store.subscribe(b"other")),
        (1, |store| store.unsubscribe(b"inbox")),
        (0, |store| store.unsubscribe(b"inbox")),
        (0, |store| store.unsubscribe(b"inbox")),
    ] {
        let message = Message {
            channel: "inbox".into(),
            text: "hello".into(),
            receivers,
        };
        assert_eq!(
            publish(change),
            (Ok(Reply::Number(receivers as i64)), vec![message])
        );
    }
}

// What was published before an error has been published.
#[test]
fn a_script_that_fails_has_published_what_it_published() {
    let mut store = Store::new();
    let script = Script::new("redis.call('PUBLISH', 'a', 'b') return redis.call('NONE')");
    let call = Call {
        script: &script,
        keys: &[],
        args: &[],
    };
    let (reply, messages) = store.run(call, NOW);
    assert!(reply.is_err());
    assert_eq!(messages.len(), 1);
}
