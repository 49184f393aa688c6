//! Lines of the scripts that may go, or ask the opposite, without breaking a promise.

const LONG_WAY: &str = "the long way does the same";
const LOOK: &str = "the next look finds it";
const GUESS: &str = "a look is worth while a little sooner or later";
const COPY: &str =
    "a copy may leave a place, as any may, and the release after its validity removes it";
const TOLD: &str = "the message itself is on its way";

/// What such changes are called, without the line's number, and why nobody notices them.
pub const SURVIVORS: [(&str, &str); 18] = [
    ("lock acquire without return us", LONG_WAY),
    (
        "lock acquire without if items == 1 and enter(1) then return us end",
        LONG_WAY,
    ),
    ("rw acquire without return us", LONG_WAY),
    (
        "rw acquire without if items == 1 and enter(1) then return us end",
        LONG_WAY,
    ),
    ("semaphore acquire without return us", LONG_WAY),
    (
        "semaphore acquire without if items == 1 and enter(1) then return us end",
        LONG_WAY,
    ),
    (
        "shared acquire without if items > 1 and enter(i) then return 1, \"\", 0 end",
        LONG_WAY,
    ),
    (
        "lock release without if call(\"HDEL\", KEYS[1], string.match(ARGV[3], \"^[^|]+\")) == 1 then return 1 end",
        LONG_WAY,
    ),
    (
        "shared hash without ends = math.max(ends, ms + lease)",
        GUESS,
    ),
    ("shared rw without ends = math.max(ends, ms + lease)", GUESS),
    (
        "shared semaphore without ends = ends > ms and math.min(ends, ms + lease) or ms + lease",
        GUESS,
    ),
    (
        "shared rw_again without if owner == client .. \":\" .. number then return end",
        LONG_WAY,
    ),
    (
        "shared rw_again without if call(\"ZSCORE\", readers, hold) then return 1, put(hold, kind, weight, lease) end",
        COPY,
    ),
    (
        "shared semaphore_again without if call(\"ZSCORE\", permits, hold .. \"|\" .. weight) then return 1, \"\" end",
        COPY,
    ),
    (
        "shared grant without if not denied and told > 0 then news[#news + 1] = message end",
        TOLD,
    ),
    (
        "shared release without for _, message in ipairs(news) do reply[#reply + 1] = message end",
        TOLD,
    ),
    (
        "shared acquire negated if leave(entry) > 0 then grant() end",
        LOOK,
    ),
    ("shared renew without grant()", LOOK),
];

/// A change's name without the line's number.
#[must_use]
pub fn without_number(name: &str) -> String {
    let (script, rest) = name.split_once(':').unwrap_or((name, ""));
    let (_, rest) = rest.split_once(' ').unwrap_or(("", rest));
    format!("{script} {rest}")
}

/// Why nobody is to notice a change.
#[must_use]
pub fn survivor(name: &str) -> Option<&'static str> {
    let name = without_number(name);
    let known = SURVIVORS.iter().find(|(known, _)| *known == name);
    known.map(|(_, reason)| *reason)
}
