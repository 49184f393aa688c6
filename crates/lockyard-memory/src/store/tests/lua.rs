use super::*;

#[track_caller]
fn refused(text: &'static str, message: &str) {
    let error = Store::new().eval(text).unwrap_err();
    let sha = Script::new(text).sha().to_string();
    assert_eq!(error.message().replace(&sha, "SHA"), message, "{text}");
}

// Red when numbers are rounded, when false ends a table, and when nil does not.
#[test]
fn what_a_script_returns_becomes_a_reply() {
    use Reply::{Array, Number, Other};
    let text = |text: &'static str| Reply::Text(text.into());
    for (script, reply) in [
        ("return 1.9", Number(1)),
        ("return -1.9", Number(-1)),
        ("return 1733000000000000", Number(1_733_000_000_000_000)),
        ("return 'x'", text("x")),
        ("return true", Number(1)),
        ("return false", Other),
        ("return nil", Other),
        ("return", Other),
        ("return {}", Array(vec![])),
        ("return redis.call('SET', 'a', 'b')", Other),
        (
            "return {1.9, 'x', {2}, true, false, {err = 'bad'}, 3, nil, 4}",
            Array(vec![
                Number(1),
                text("x"),
                Array(vec![Number(2)]),
                Number(1),
                Other,
                Other,
                Number(3),
            ]),
        ),
    ] {
        assert_eq!(Store::new().eval(script), Ok(reply), "{script}");
    }
}

// The texts are those of Redis 7.0.15, the part after the second colon of an unknown command excepted.
#[test]
fn errors_say_what_redis_says_and_where() {
    refused("return {err = 'FOO bar'}", "FOO bar");
    refused(
        "redis.call('SET', 'a', 'x')\nreturn redis.call('HGET', 'a', 'b')",
        "WRONGTYPE Operation against a key holding the wrong kind of value script: SHA, on @user_script:2.",
    );
    refused(
        "#!lua\nlocal x = nil\nreturn x.y",
        "ERR user_script:3: attempt to index local 'x' (a nil value) script: SHA, on @user_script:3.",
    );
    refused(
        "error('no')",
        "ERR user_script:1: no script: SHA, on @user_script:1.",
    );
    refused(
        "return redis.call('GET', nil)",
        "ERR Lua redis lib command arguments must be strings or integers script: SHA, on @user_script:1.",
    );
    refused(
        "return redis.call()",
        "ERR Please specify at least one argument for this redis lib call script: SHA, on @user_script:1.",
    );
    refused(
        "if",
        "ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'",
    );
}

// Red with the plain `pcall`, which gives what mlua makes of an error.
#[test]
fn a_script_catches_an_error_as_text_and_reads_one_as_a_table() {
    for (script, seen) in [
        (
            "return {pcall(redis.call, 'GET')}",
            "{false \"ERR Wrong number of args calling Redis command from script\"}",
        ),
        (
            "return {pcall(error, {err = 'ERR foo'})}",
            "{false \"ERR foo\"}",
        ),
        ("return {pcall(error, 'text')}", "{false \"text\"}"),
        ("return {pcall(function() return 1, 2 end)}", "{true 1 2}"),
        (
            "return redis.pcall('GET')",
            "error ERR Wrong number of args calling Redis command from script",
        ),
        ("return redis.pcall('SET', 'a', 'b')", "ok OK"),
        ("return type(redis.call('GET', 'none'))", "\"boolean\""),
    ] {
        assert_eq!(Store::new().show_at(0, script), seen, "{script}");
    }
}

// Red with `{}` in place of `%.17g`, and with Lua's own `%.14g`.
#[test]
fn numbers_given_to_commands_keep_all_digits() {
    for (number, text) in [
        ("1733000000000000 + 1", "\"1733000000000001\""),
        ("1.5", "\"1.5\""),
        ("12345678901234567890", "\"1.2345678901234567e+19\""),
        ("-1", "\"-1\""),
    ] {
        let script = format!("redis.call('SET', 'a', {number}) return redis.call('GET', 'a')");
        assert_eq!(Store::new().show_at(0, &script), text);
    }
}

// Red when the environment is the plain table of globals.
#[test]
fn globals_can_neither_be_made_nor_changed_nor_guessed() {
    let readonly =
        "ERR user_script:1: Attempt to modify a readonly table script: SHA, on @user_script:1.";
    for script in [
        "x = 1",
        "math.x = 1",
        "KEYS = 1",
        "redis.call = 1",
        "string = 1",
    ] {
        refused(script, readonly);
    }
    for name in [
        "x",
        "os",
        "io",
        "loadstring",
        "collectgarbage",
        "setmetatable",
    ] {
        let message = format!(
            "ERR user_script:1: Script attempted to access nonexistent global variable '{name}' \
             script: SHA, on @user_script:1."
        );
        refused(format!("return {name}").leak(), &message);
    }
    assert_eq!(
        Store::new().eval("return tostring(math.random)"),
        Ok(Reply::Text("nil".into()))
    );
}

// Red when the flag is not read, and when PUBLISH counts as a read.
#[test]
fn the_first_line_says_what_a_script_may_do() {
    refused(
        "#!lua flags=no-writes\nreturn redis.call('SET', 'a', 'b')",
        "ERR Write commands are not allowed from read-only scripts. script: SHA, on @user_script:2.",
    );
    refused(
        "#!lua flags=foo\nreturn 1",
        "ERR Unexpected flag in script shebang: foo",
    );
    refused(
        "#!py\nreturn 1",
        "ERR Unexpected engine in script shebang: #!py",
    );
    refused(
        "#!lua name=x\nreturn 1",
        "ERR Unknown lua shebang option: name=x",
    );
    refused(
        "#!lua flags=no-writes\nreturn redis.call('PUBLISH', 'a', 'b')",
        "ERR Write commands are not allowed from read-only scripts. script: SHA, on @user_script:2.",
    );
    let mut store = Store::new();
    assert_eq!(
        store.eval("#!lua flags=no-writes\nreturn redis.call('EXISTS', 'a')"),
        Ok(Reply::Number(0))
    );
    assert_eq!(
        store.eval("#!lua flags=allow-oom,allow-stale,\nreturn redis.call('INCR', 'a')"),
        Ok(Reply::Number(1))
    );
}

#[test]
fn keys_and_arguments_are_strings() {
    let mut store = Store::new();
    let script = Script::new("return {KEYS[1], type(ARGV[1]), ARGV[1], ARGV[2], #KEYS, #ARGV}");
    let keys = [Bytes::from("k")];
    let args = [Arg::Number(7), Arg::from("x\0\u{fffd}")];
    let call = Call {
        script: &script,
        keys: &keys,
        args: &args,
    };
    let text = |text: &'static str| Reply::Text(text.into());
    let expected = vec![
        text("k"),
        text("string"),
        text("7"),
        text("x\0\u{fffd}"),
        Reply::Number(1),
        Reply::Number(2),
    ];
    assert_eq!(store.run(call, NOW).0, Ok(Reply::Array(expected)));
}
