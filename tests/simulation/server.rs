//! What the server does.

use std::sync::{Arc, LazyLock};

use lockyard_core::__private::{Arg, Call, Event, Fault as Failure, Reply, Script};

use crate::faults::Fault;
use crate::laws::excuse;
use crate::mutants::Texts;
use crate::network::{Answer, Command, Delivery};
use crate::world::Inner;

static DELETE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local holds = redis.call('HGETALL', KEYS[1])
        for i = 1, #holds, 2 do redis.call('HDEL', KEYS[1], holds[i]) end",
    )
});

impl Inner {
    pub(crate) fn execute(
        &mut self,
        now: u64,
        command: &Command,
        generation: u64,
        answer: Option<Answer>,
    ) {
        let us = self.server_us(now);
        let reply = match command.script {
            None => Ok(Reply::Number(us as i64)),
            Some(text) => self.run_script(now, us, text, command),
        };
        let Some(answer) = answer else { return };
        let (client, lane) = (command.client, command.lane);
        if self.strikes(Fault::LostReply, 8) {
            return;
        }
        let at = (now + self.delay()).max(self.links[client].answers[lane as usize]);
        self.links[client].answers[lane as usize] = at;
        self.at(at, Delivery::Reply(client, lane, generation, answer, reply));
    }

    fn run_script(
        &mut self,
        now: u64,
        us: u64,
        text: &'static str,
        command: &Command,
    ) -> Result<Reply, Failure> {
        let name = Texts::name(text);
        let script: Arc<Script> = self.texts.script(text);
        let call = Call {
            script: &script,
            keys: &command.keys,
            args: &command.args,
        };
        let (reply, messages) = self.store.run(call, us);
        if name.ends_with("acquire") {
            for item in command.args[2..].chunks_exact(3) {
                if let [Arg::Text(hold), _, Arg::Text(wish)] = item {
                    let wish = String::from_utf8_lossy(wish);
                    let ticket = wish
                        .rsplit('|')
                        .next()
                        .and_then(|ticket| ticket.parse().ok());
                    if let Some(ticket @ 1..) = ticket {
                        let hold = String::from_utf8_lossy(hold).into_owned();
                        self.laws.kept.insert(hold, ticket);
                    }
                }
            }
        }
        if name.ends_with("exchange") {
            // What comes takes the place of what goes, before all who wait.
            for arg in &command.args[2..] {
                if let Arg::Text(member) = arg {
                    let member = String::from_utf8_lossy(member);
                    let hold = member.split('|').next().unwrap_or_default().to_owned();
                    self.laws.kept.insert(hold, 0);
                }
            }
        }
        let forced = |arg: &Arg| matches!(arg, Arg::Text(text) if text.starts_with(b"!"));
        if name.ends_with("release") && command.args.iter().any(forced) {
            let lock = String::from_utf8_lossy(&command.keys[0]);
            self.laws.excuse(&lock, now, now + excuse());
        }

        self.note(now, format!("{} server", command.client), || {
            format!("{name} {:?} -> {reply:?}", command.args)
        });
        self.look(now);
        for message in messages {
            let text = String::from_utf8_lossy(&message.text);
            let granted = text.strip_prefix("granted ").unwrap_or_default();
            for entry in granted.split(' ').skip(1) {
                let hold = entry.split('|').next().unwrap_or_default();
                self.laws.granted(hold, message.receivers, now);
            }
            let links = self.links.iter();
            let to = links
                .enumerate()
                .find(|(_, link)| link.channel == message.channel);
            let Some((client, hears)) = to.map(|(client, link)| (client, link.hears)) else {
                continue;
            };
            let lost = self.strikes(Fault::LostMessage, 20);
            if hears && !lost {
                let at = (now + self.delay()).max(self.links[client].told);
                self.links[client].told = at;
                self.at(at, Delivery::Tell(client, Event::Message(message.text)));
            }
        }
        reply.map_err(Failure::Refused)
    }

    /// Removes a lock's hash, as an operator may.
    pub(crate) fn delete(&mut self, now: u64, key: &str) {
        let us = self.server_us(now);
        let call = Call {
            script: &DELETE,
            keys: &[key.to_owned().into()],
            args: &[],
        };
        // The interpreter cannot refuse this script.
        let _ = self.store.run(call, us);
        self.look(now);
    }

    /// Sees what the store holds.
    pub(crate) fn look(&mut self, now: u64) {
        let us = self.server_us(now);
        let entries = self.store.dump(us);
        self.laws.observe(&entries, us / 1000, now);
    }
}
