//! Owners that come as text.

use lockyard::{Error, Owner};

// Red when whatever `Uuid` reads is taken.
#[tokio::test]
async fn only_the_text_of_an_owner_is_an_owner() {
    const UUID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let sent: Owner = format!("{UUID}:0").parse().unwrap();
    assert_eq!(sent.to_string(), format!("{UUID}:0"));
    assert!(
        format!("{UUID}:18446744073709551615")
            .parse::<Owner>()
            .is_ok()
    );

    let simple = UUID.replace('-', "");
    let mut bad: Vec<String> = vec![
        String::new(),
        ":".into(),
        "mode".into(),
        "a:write".into(),
        UUID.into(),
        format!("{UUID}:"),
        ":1".into(),
        format!("{simple}:1"),
        format!("{}:1", UUID.to_uppercase()),
        format!("{{{UUID}}}:1"),
        format!("urn:uuid:{UUID}:1"),
        format!("{UUID}:1:1"),
        format!("{UUID}::1"),
        format!("{UUID} :1"),
        format!(" {UUID}:1"),
        format!("\0{UUID}:1"),
        format!("{}:1", &UUID[1..]),
        format!("{UUID}0:1"),
        format!("{UUID}/1"),
        format!("{UUID}:1/{UUID}.1"),
        format!("{UUID}:1|-|1|2|3"),
        "x".repeat(1 << 20),
        "\u{ff10}".repeat(36) + ":1",
    ];
    for number in [
        "-1",
        "-0",
        "+1",
        "00",
        "01",
        "1.0",
        "1e3",
        "0x1",
        " 1",
        "1 ",
        "1\n",
        "1\r\n",
        "1\0",
        "1|",
        "1/",
        "١",
        "18446744073709551616",
    ] {
        bad.push(format!("{UUID}:{number}"));
    }
    for text in bad {
        let error = text.parse::<Owner>().expect_err(&text);
        assert!(matches!(error, Error::InvalidOwner { .. }), "{text:?}");
        assert!(!error.is_retryable());
        let told = error.to_string();
        assert!(
            told.contains("<uuid>:<number>") && told.len() < 700,
            "{told}"
        );
        assert!(!told.contains('\0') && !told.contains('\n'), "{told:?}");
    }
}
