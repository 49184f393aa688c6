use futures_util::future::join_all;
use lockyard::{Rate, RateLimiter};
use lockyard_testkit::Server;
use rustix::time::{ClockId, clock_gettime};

use crate::process::{Other, Part};
use crate::support::{client, ms};

const PROCESSES: usize = 8;
const TASKS: usize = 8;
/// How many permits each task takes.
const EACH: u32 = 20;
/// So much in hand that no pause of a busy machine leaves the limiter idle.
const RATE: Rate = Rate::per_second(400).burst(150);

/// A call that was granted: when it began and ended, by a clock that all processes share, in µs, and the permits.
#[derive(Clone, Copy)]
struct Granted {
    began: u64,
    ended: u64,
    permits: u32,
}

fn now_us() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Takes permits in every way there is, as fast as they come.
async fn take(limiter: RateLimiter, task: usize) -> Vec<Granted> {
    let mut granted = Vec::new();
    let mut left = EACH;
    for round in task.. {
        if left == 0 {
            break;
        }
        let permits = (round as u32 % 3 + 1).min(left);
        let began = now_us();
        let decision = match round % 3 {
            0 => limiter.acquire(permits).await.map(|_| None),
            1 => limiter
                .try_acquire_for(permits, ms(60_000))
                .await
                .map(|it| it.retry_after()),
            _ => limiter
                .try_acquire(permits)
                .await
                .map(|it| it.retry_after()),
        };
        match decision.unwrap() {
            None => {
                let ended = now_us();
                left -= permits;
                granted.push(Granted {
                    began,
                    ended,
                    permits,
                });
            }
            Some(after) => tokio::time::sleep(after).await,
        }
    }
    granted
}

async fn one_of_the_fleet(part: &Part) {
    let limiter = client(&part.arguments[0]).await.rate_limiter("x", RATE);
    part.say("ready");
    part.next();
    let tasks = (0..TASKS).map(|task| tokio::spawn(take(limiter.clone(), task)));
    for granted in join_all(tasks).await {
        for it in granted.unwrap() {
            part.say(&format!("{} {} {}", it.began, it.ended, it.permits));
        }
    }
    part.say("done");
}

fn history(other: &Other) -> Vec<Granted> {
    let mut granted = Vec::new();
    loop {
        let line = other.next();
        if line == "done" {
            return granted;
        }
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        granted.push(Granted {
            began: numbers[0],
            ended: numbers[1],
            permits: numbers[2] as u32,
        });
    }
}

/// When the limiter was last asked successfully, in server µs, and what it was owed then.
fn state(server: &Server) -> (u64, f64) {
    let words = ["HMGET", "lockyard:rate:{x}", "at", "debt"];
    let (at, debt): (u64, String) = server.query(&words).unwrap();
    (at, debt.parse().unwrap())
}

// Red with a burst twice as large in the script, and when one in fifty permits is not owed.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_gets_its_rate_and_no_window_more_than_its_bound() {
    if let Some(part) = Part::mine() {
        return one_of_the_fleet(&part).await;
    }
    let server = Server::start().unwrap();
    let name = "limiter::fleet::a_fleet_gets_its_rate_and_no_window_more_than_its_bound";
    let start = |_| Other::start(name, &[&server.url()]);
    let mut fleet: Vec<Other> = (0..PROCESSES).map(start).collect();
    fleet.iter().for_each(|other| other.hears("ready"));
    let limiter = client(&server.url()).await.rate_limiter("x", RATE);
    limiter.acquire(RATE.max_burst()).await.unwrap();
    let (first, owed) = state(&server);
    fleet.iter_mut().for_each(|other| other.tell("go"));
    let granted: Vec<Granted> = fleet.iter().flat_map(history).collect();

    // What has been paid back is what the rate says, by the server's own clock.
    let all = (PROCESSES * TASKS) as u32 * EACH;
    assert_eq!(granted.iter().map(|it| it.permits).sum::<u32>(), all);
    let (last, left) = state(&server);
    let paid = owed + f64::from(all) - left;
    let due = (last - first) as f64 / 1e6 * f64::from(RATE.permits());
    assert!(
        (paid / due - 1.0).abs() < 0.01,
        "{paid} paid back instead of {due}"
    );
    assert_bound(&granted);
}

/// No span of time has more permits than it may, counting those calls that lie in it with all that they took.
fn assert_bound(granted: &[Granted]) {
    let mut by_end = granted.to_vec();
    by_end.sort_by_key(|it| it.ended);
    for from in granted.iter().map(|it| it.began) {
        let mut sum = 0;
        for it in by_end.iter().filter(|it| it.began >= from) {
            sum += it.permits;
            // What one of two clocks may gain on the other.
            let span = (it.ended - from + 1000) as f64 / 1e6;
            let most = f64::from(RATE.max_burst()) + span * f64::from(RATE.permits());
            assert!(
                f64::from(sum) <= most,
                "{sum} in {span} s, which may have {most}"
            );
        }
    }
}
