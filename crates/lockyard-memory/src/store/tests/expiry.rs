use std::time::Duration;

use super::*;

// Red when PEXPIRE keeps a key for zero or negative times, and without the check for an overflow.
#[test]
fn times_to_live_are_set_asked_and_refused() {
    Store::new().check(&[
        ("PTTL a", "-2"),
        ("PEXPIRE a 10", "0"),
        ("SET a x", "ok OK"),
        ("PTTL a", "-1"),
        (
            "PEXPIRE a 1.5",
            "error ERR value is not an integer or out of range",
        ),
        (
            "PEXPIRE a 9223372036854775807",
            "error ERR invalid expire time in 'pexpire' command",
        ),
        (
            "PEXPIRE a 10 XX",
            "error ERR syntax error: XX is no option that lockyard-memory has",
        ),
        ("PEXPIRE a 10", "1"),
        ("PTTL a", "10"),
        ("PEXPIRE a 0", "1"),
        ("PTTL a", "-2"),
        ("SET a x", "ok OK"),
        ("PEXPIRE a -5", "1"),
        ("EXISTS a", "0"),
    ]);
}

// Red with `<=` in `Slot::is_over`, and when `slot` gives out what is over.
#[test]
fn a_key_lives_in_the_millisecond_in_which_it_expires_and_no_longer() {
    let mut store = Store::new();
    store.check(&[("HSET h a 1", "1"), ("PEXPIRE h 10", "1")]);
    assert_eq!(store.command_at(10, "PTTL h"), "0");
    assert_eq!(store.command_at(10, "HGET h a"), "\"1\"");
    for (words, answer) in [
        ("EXISTS h", "0"),
        ("PTTL h", "-2"),
        ("HGETALL h", "{}"),
        ("PEXPIRE h 10", "0"),
        ("ZADD h 1 a", "1"),
        ("PTTL h", "-1"),
    ] {
        assert_eq!(store.command_at(11, words), answer, "{words}");
    }
}

// Red when `iter` shows what is over.
#[test]
fn a_dump_shows_what_lives_and_for_how_long() {
    let mut store = Store::new();
    store.check(&[
        ("SET a x", "ok OK"),
        ("HSET b f 1", "1"),
        ("PEXPIRE b 10", "1"),
        ("ZADD c 2.5 m", "1"),
        ("PEXPIRE c 30", "1"),
    ]);
    let keys = |entries: &[crate::Entry]| -> Vec<(Bytes, Option<Duration>)> {
        entries
            .iter()
            .map(|entry| (entry.key.clone(), entry.ttl))
            .collect()
    };
    let ms = |ms| Some(Duration::from_millis(ms));
    let [a, b, c] = ["a", "b", "c"].map(Bytes::from);
    let dump = store.dump(NOW + 10_000);
    assert_eq!(
        keys(&dump),
        [(a.clone(), None), (b, ms(0)), (c.clone(), ms(20))]
    );
    assert_eq!(
        dump[2].value,
        crate::Value::SortedSet(vec![("m".into(), 2.5)])
    );
    assert_eq!(keys(&store.dump(NOW + 11_000)), [(a, None), (c, ms(19))]);
    store.flush_all();
    assert_eq!(store.dump(NOW), []);
}

// Red without the sweep in `set_now`: then all 100 000 stay.
#[test]
fn keys_that_nobody_asks_for_again_do_not_pile_up() {
    let store = Store::new();
    for ms in 0..100_000 {
        let keyspace = &mut store.session.lock().world.keyspace;
        keyspace.set_now(ms * 1000);
        let key = ms.to_string();
        keyspace.set(key.as_bytes(), crate::value::Value::Text((*b"x").into()));
        assert_eq!(keyspace.expire(key.as_bytes(), 10), Ok(true));
        assert!(keyspace.len() <= 1100);
    }
}
