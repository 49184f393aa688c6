use super::*;

// Red when `set` keeps the TTL, and when `incr` begins anew after a text that is no number.
#[test]
fn strings() {
    Store::new().check(&[
        ("GET a", "false"),
        ("SET a x", "ok OK"),
        ("GET a", "\"x\""),
        (
            "INCR a",
            "error ERR value is not an integer or out of range",
        ),
        ("GET a", "\"x\""),
        ("PEXPIRE a 1000", "1"),
        ("SET a 7", "ok OK"),
        ("PTTL a", "-1"),
        ("PEXPIRE a 1000", "1"),
        ("INCR a", "8"),
        ("PTTL a", "1000"),
        ("INCR new", "1"),
        ("SET a 9223372036854775807", "ok OK"),
        ("INCR a", "error ERR increment or decrement would overflow"),
        ("GET a", "\"9223372036854775807\""),
        ("SET a x PX 500", "ok OK"),
        ("PTTL a", "500"),
        ("PEXPIRE a 400 GT", "0"),
        ("PEXPIRE a 600 gt", "1"),
        ("PTTL a", "600"),
        ("SET a x", "ok OK"),
        ("PEXPIRE a 600 GT", "0"),
        ("PEXPIRE none 600 GT", "0"),
        (
            "SET a x PX 0",
            "error ERR invalid expire time in 'set' command",
        ),
        (
            "SET a x EX 1",
            "error ERR syntax error: EX is no option that lockyard-memory has",
        ),
        (
            "PEXPIRE a 1 NX",
            "error ERR syntax error: NX is no option that lockyard-memory has",
        ),
        ("DEL new none", "1"),
        ("SET new x", "ok OK"),
        ("EXISTS a new none a", "3"),
    ]);
}

// Red when a hash without fields stays, and when HSETNX overwrites.
#[test]
fn hashes() {
    Store::new().check(&[
        ("HGETALL h", "{}"),
        ("HGET h a", "false"),
        ("HMGET h a b", "{false false}"),
        ("HDEL h a", "0"),
        ("HSET h a 1 b 2 a 3", "2"),
        ("HSET h a 4 c 5", "1"),
        ("HGETALL h", "{\"a\" \"4\" \"b\" \"2\" \"c\" \"5\"}"),
        ("HSETNX h a 9", "0"),
        ("HSETNX h d 6", "1"),
        ("HGET h a", "\"4\""),
        ("HMGET h a x c", "{\"4\" false \"5\"}"),
        ("PEXPIRE h 1000", "1"),
        ("HDEL h a x b", "2"),
        ("PTTL h", "1000"),
        ("HDEL h c d", "2"),
        ("EXISTS h", "0"),
        ("HSETNX h a 1", "1"),
        ("PTTL h", "-1"),
        (
            "HSET h a 1 b",
            "error ERR wrong number of arguments for 'hset' command",
        ),
    ]);
}

// Red when NX or GT are ignored, when GT refuses new members, and when a set without members stays.
#[test]
fn sorted_sets() {
    Store::new().check(&[
        ("ZRANGE z 0 -1", "{}"),
        ("ZCARD z", "0"),
        ("ZADD z 2 b 1 a 2 a2", "3"),
        ("ZRANGE z 0 -1", "{\"a\" \"a2\" \"b\"}"),
        ("ZADD z NX 9 a 3 c", "1"),
        ("ZSCORE z a", "\"1\""),
        ("ZADD z GT 0 b 8 c 1 d", "1"),
        (
            "ZRANGE z 0 -1 WITHSCORES",
            "{\"a\" \"1\" \"d\" \"1\" \"a2\" \"2\" \"b\" \"2\" \"c\" \"8\"}",
        ),
        ("ZADD z 0 c", "0"),
        ("ZRANGE z 0 0 withscores", "{\"c\" \"0\"}"),
        ("ZRANGE z -1 -1", "{\"b\"}"),
        ("ZRANGE z -2 100", "{\"a2\" \"b\"}"),
        ("ZRANGE z -100 1", "{\"c\" \"a\"}"),
        ("ZRANGE z 3 3", "{\"a2\"}"),
        ("ZRANGE z 3 2", "{}"),
        ("ZRANGE z 5 9", "{}"),
        ("ZSCORE z none", "false"),
        ("ZCARD z", "5"),
        ("ZREM z a none d", "2"),
        ("ZCOUNT z 0 1", "1"),
        ("ZCOUNT z -inf 2", "3"),
        ("ZCOUNT none 0 1", "0"),
        ("ZADD z 3 e 4 f", "2"),
        ("ZREMRANGEBYRANK z -1 -1", "1"),
        ("ZREMRANGEBYRANK z 3 9", "1"),
        ("ZREMRANGEBYRANK none 0 9", "0"),
        ("ZREMRANGEBYSCORE z 0 1.5", "1"),
        ("ZREMRANGEBYSCORE z -inf +inf", "2"),
        ("EXISTS z", "0"),
        ("ZADD z 1733000000000000 big", "1"),
        ("ZRANGE z 0 -1 WITHSCORES", "{\"big\" \"1733000000000000\"}"),
        ("ZREM z big", "1"),
        ("EXISTS z", "0"),
        ("ZREM z big", "0"),
    ]);
}

#[test]
fn sorted_sets_refuse_what_redis_refuses() {
    Store::new().check(&[
        ("ZADD z x a", "error ERR value is not a valid float"),
        ("ZADD z 1 a nan b", "error ERR value is not a valid float"),
        ("EXISTS z", "0"),
        ("ZADD z 1 a 2", "error ERR syntax error"),
        ("ZADD z NX GT", "error ERR syntax error"),
        (
            "ZADD z NX GT 1 a",
            "error ERR GT, LT, and/or NX options at the same time are not compatible",
        ),
        (
            "ZADD z XX 1 a",
            "error ERR syntax error: XX is no option that lockyard-memory has",
        ),
        (
            "ZRANGE z a b",
            "error ERR value is not an integer or out of range",
        ),
        (
            "ZRANGE z 0 1 REV",
            "error ERR syntax error: REV is no option that lockyard-memory has",
        ),
        (
            "ZREMRANGEBYSCORE z a 1",
            "error ERR min or max is not a float",
        ),
        (
            "ZREMRANGEBYSCORE z (1 2",
            "error ERR syntax error: (1 is no option that lockyard-memory has",
        ),
    ]);
}

// Red with a text in place of the error where a key has another type.
#[test]
fn a_key_of_another_type_is_an_error_and_stays() {
    let mut store = Store::new();
    store.check(&[
        ("SET s x", "ok OK"),
        ("HSET h a 1", "1"),
        ("ZADD z 1 a", "1"),
    ]);
    for (key, commands) in [
        (
            "s",
            &[
                "HGET s a",
                "HGETALL s",
                "HMGET s a",
                "HSET s a 1",
                "HSETNX s a 1",
                "HDEL s a",
            ][..],
        ),
        (
            "s",
            &[
                "ZADD s 1 a",
                "ZCARD s",
                "ZSCORE s a",
                "ZRANGE s 0 0",
                "ZREM s a",
            ],
        ),
        ("h", &["GET h", "INCR h", "ZREMRANGEBYSCORE h 0 1"]),
        ("z", &["GET z", "HGET z a"]),
    ] {
        for words in commands {
            assert_eq!(store.command_at(0, words), WRONG_TYPE, "{words}");
        }
        assert_eq!(store.command_at(0, &format!("EXISTS {key}")), "1");
    }
    store.check(&[("SET h x", "ok OK"), ("GET h", "\"x\"")]);
}

#[test]
fn unknown_commands_and_wrong_numbers_of_words_are_errors() {
    Store::new().check(&[
        ("FLUSHALL", "error ERR Unknown Redis command called from script: FLUSHALL is none that lockyard-memory has"),
        ("A_NAME_LONGER_THAN_THAT_OF_ANY_COMMAND", "error ERR Unknown Redis command called from script: A_NAME_LONGER_THAN_THAT_OF_ANY_COMMAND is none that lockyard-memory has"),
        ("GET", "error ERR Wrong number of args calling Redis command from script"),
        ("GET a b", "error ERR Wrong number of args calling Redis command from script"),
        ("EXISTS", "error ERR Wrong number of args calling Redis command from script"),
        ("time", "{\"1733000000\" \"0\"}"),
    ]);
}
