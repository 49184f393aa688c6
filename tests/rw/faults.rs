use std::pin::pin;
use std::time::Instant;

use lockyard::{Error, HoldState};
use lockyard_testkit::{Action, Proxy, Server, eventually_async};

use super::{no_keys, reads, until_waiting, writes};
use crate::contract::late::Line;
use crate::contract::offered::Write;
use crate::support::{A_LOOK, SOON, Script, client, ms, patient, soon, variant, while_waiting};

const READERS: &str = "lockyard:rw.readers:{x}";

// Red if a waiter does not look (`queued` in core's lines.rs sets nothing due).
#[tokio::test]
async fn a_lost_message_costs_the_readers_one_look() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, waits) = (client(&server.url()).await, client(&proxy.url()).await);
    let lock = holder.rw_lock("x");
    let writing = lock.write().await.unwrap();
    let readers = [(); 3].map(|()| reads(&waits.rw_lock("x")));
    until_waiting(&lock, 3).await;
    // All three are told by one.
    proxy.drop_messages(1);
    let released = Instant::now();
    writing.release().await.unwrap();
    for reader in readers {
        soon(reader).await.unwrap().release().await.unwrap();
    }
    assert!(released.elapsed() < A_LOOK, "{:?}", released.elapsed());
    assert_eq!(proxy.messages_dropped(), 1);
    no_keys(&server);
}

// Red with a new ticket for each attempt (core's acquire.rs: `ticket: 0` in the arguments).
#[tokio::test]
async fn readers_whose_connection_blinks_keep_their_places() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, blinks) = (client(&server.url()).await, client(&proxy.url()).await);
    let lock = holder.rw_lock("x");
    let writing = lock.write().await.unwrap();
    let first = reads(&blinks.rw_lock("x"));
    until_waiting(&lock, 1).await;
    let writer = writes(&lock);
    until_waiting(&lock, 2).await;
    let last = reads(&blinks.rw_lock("x"));
    until_waiting(&lock, 3).await;
    let tickets = || {
        let words = ["ZRANGE", "lockyard:rw.queue:{x}", "0", "-1", "WITHSCORES"];
        let entries: Vec<(String, f64)> = server.query(&words).unwrap();
        entries.into_iter().map(|(_, ticket)| ticket).collect()
    };
    let before: Vec<f64> = tickets();
    for _ in 0..3 {
        proxy.cut();
        let looks = proxy.always(Script::Renew.calls(), Action::Pass);
        looks.wait_fired_async(1, SOON).await;
        looks.remove();
        assert_eq!(tickets(), before);
    }
    server.command(&["DEL", "lockyard:rw.queue:{x}"]).unwrap();
    eventually_async(SOON, async || tickets() == before).await;
    writing.release().await.unwrap();
    let reading = soon(first).await.unwrap();
    assert!(!writer.is_finished() && !last.is_finished());
    reading.release().await.unwrap();
    let writing = soon(writer).await.unwrap();
    assert!(!last.is_finished());
    writing.release().await.unwrap();
    soon(last).await.unwrap().release().await.unwrap();
}

// Red without the second release, when the acquire can no longer come.
#[tokio::test]
async fn a_reader_that_comes_back_late_goes_again() {
    let line = Line::<Write>::new().await;
    line.proxy.once(Script::Acquire.calls(), Action::Copy);
    let lock = line.client.rw_lock("x");
    soon(lock.read()).await.unwrap().release().await.unwrap();
    line.proxy.resend_copies().unwrap();
    // A busy machine may have been too late for the copy to be taken.
    let writing = soon(line.other.rw_lock("x").write()).await.unwrap();
    writing.release().await.unwrap();
    line.nothing_is_left().await;
}

#[tokio::test]
async fn late_copies_of_a_readers_renewal_and_release_do_nothing() {
    let line = Line::<Write>::patient().await;
    let lock = line.client.rw_lock("x");
    let renewed = line.proxy.once(Script::Renew.calls(), Action::Copy);
    let released = line.proxy.once(Script::Release.calls(), Action::Copy);
    let lock_of_900_ms = lock.with_lease(lockyard::Lease::Renewed(ms(900)));
    let reading = soon(lock_of_900_ms.read()).await.unwrap();
    renewed.wait_fired_async(1, SOON).await;
    reading.release().await.unwrap();
    released.wait_fired_async(1, SOON).await;
    let writing = soon(line.other.rw_lock("x").write()).await.unwrap();
    assert_eq!(line.proxy.resend_copies().unwrap().len(), 2);
    assert_eq!(writing.state(), HoldState::Held);
    assert_eq!(line.other.rw_lock("x").reader_count().await.unwrap(), 0);
    writing.release().await.unwrap();
    line.nothing_is_left().await;
}

// Red if a granted reader that is cut off stands in the way for its lease.
#[tokio::test]
async fn a_granted_reader_that_is_cut_off_stands_in_the_way_for_a_waiter_timeout() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, deaf) = (client(&server.url()).await, client(&proxy.url()).await);
    let lock = holder.rw_lock("x");
    let writing = lock.write().await.unwrap();
    let cut_off = reads(&deaf.rw_lock("x"));
    until_waiting(&lock, 1).await;
    let next = writes(&lock);
    until_waiting(&lock, 2).await;
    proxy.hold(lockyard_testkit::Direction::Both);
    writing.release().await.unwrap();
    let released = Instant::now();
    let entered = soon(next).await.unwrap();
    let bound = crate::support::WAITER_TIMEOUT + A_LOOK;
    assert!(released.elapsed() < bound, "{:?}", released.elapsed());
    // When it hears of its grant it must not believe it.
    proxy.let_go();
    tokio::time::sleep(ms(300)).await;
    assert!(!cut_off.is_finished());
    entered.release().await.unwrap();
    soon(cut_off).await.unwrap().release().await.unwrap();
}

// Red when WRONGTYPE is like any other error.
#[tokio::test]
async fn foreign_data_among_the_readers_is_reported_and_left_alone() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let lock = client.rw_lock("x");
    server.command(&["RPUSH", READERS, "some", "data"]).unwrap();
    for error in [
        soon(lock.read()).await.unwrap_err(),
        soon(lock.try_read()).await.unwrap_err(),
        soon(lock.try_read_for(SOON)).await.unwrap_err(),
        soon(lock.try_write()).await.unwrap_err(),
        soon(lock.write()).await.unwrap_err(),
        lock.inspect().await.unwrap_err(),
        lock.reader_count().await.unwrap_err(),
        lock.force_release().await.unwrap_err(),
    ] {
        assert_eq!(variant(&error), "WrongType", "{error:?}");
    }
    let gone = async || server.keys("*").unwrap() == [READERS];
    eventually_async(SOON, gone).await;
    let data: Vec<String> = server.query(&["LRANGE", READERS, "0", "-1"]).unwrap();
    assert_eq!(data, ["some", "data"]);
    server.command(&["DEL", READERS]).unwrap();
    soon(lock.write()).await.unwrap().release().await.unwrap();
}

// Red when release.lua deletes the key instead of the reader's member.
#[tokio::test]
async fn foreign_data_in_the_readers_place_ends_their_holds_and_stays() {
    let server = Server::start().unwrap();
    let lock = client(&server.url()).await.rw_lock("x");
    let lock = lock.with_lease(lockyard::Lease::Renewed(ms(900)));
    let reading = lock.read().await.unwrap();
    server.command(&["DEL", READERS]).unwrap();
    server.command(&["SET", READERS, "mine"]).unwrap();
    soon(reading.lost()).await;
    let released = reading.release().await;
    assert!(matches!(released, Err(Error::LeaseLost { .. })));
    assert_eq!(server.query::<String>(&["GET", READERS]).unwrap(), "mine");
}

// Members that no client wrote: they hold until their deadline like any, and stop nobody after that.
#[tokio::test]
async fn damaged_readers_stand_in_the_way_until_their_deadline_and_no_longer() {
    let server = Server::start().unwrap();
    let waits = patient(&server.url()).await;
    let in_a_second = server.time_micros().unwrap() / 1000 + 1000;
    for member in ["", "x", "|", "a/b", "a/b.c|r|1|x|5", "%s"] {
        let until = in_a_second.to_string();
        server.command(&["ZADD", READERS, &until, member]).unwrap();
    }
    let lock = waits.rw_lock("x");
    let mut writer = pin!(lock.write());
    let queued = async || {
        let words = ["ZCARD", "lockyard:rw.queue:{x}"];
        server.query::<u64>(&words).unwrap() == 1
    };
    while_waiting(writer.as_mut(), eventually_async(SOON, queued)).await;
    soon(writer).await.unwrap().release().await.unwrap();
    no_keys(&server);
}

// A reader whose place vanished, as by an operator: lost at its next check, and nobody else is.
#[tokio::test]
async fn a_deleted_reader_is_lost_alone() {
    let server = Server::start().unwrap();
    let lock = client(&server.url()).await.rw_lock("x");
    let lock = lock.with_lease(lockyard::Lease::Renewed(ms(1500)));
    let first = lock.read().await.unwrap();
    let ids: Vec<String> = server.query(&["ZRANGE", READERS, "0", "-1"]).unwrap();
    let second = lock.read().await.unwrap();
    server.command(&["ZREM", READERS, &ids[0]]).unwrap();
    soon(first.lost()).await;
    assert_eq!(second.state(), HoldState::Held);
    second.release().await.unwrap();
    assert!(first.release().await.is_err());
    no_keys(&server);
}
