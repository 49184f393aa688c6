//! A client's way to the server: core's backend over the simulated network.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use lockyard_core::__private::{Backend, BoxFuture, Call, Fault, Lane, Moment, Reply};
use tokio::sync::oneshot;

use crate::faults::Fault as Trouble;
use crate::network::Command;
use crate::world::World;

pub(crate) struct Wire {
    pub(crate) world: Arc<World>,
    pub(crate) client: usize,
}

impl Wire {
    /// As the real backend has it: what may have come in between when the text is sent is not known to it.
    async fn run_script(&self, command: Command) -> Result<Reply, Fault> {
        let forgotten = self.world.inner().strikes(Trouble::NoScript, 15);
        if forgotten {
            let refused = Command {
                script: None,
                ..command.clone()
            };
            self.send(refused).await?;
        }
        self.send(command).await
    }

    async fn send(&self, command: Command) -> Result<Reply, Fault> {
        let (answer, answered) = oneshot::channel();
        self.world
            .with(|world, now| world.send(now, command, answer));
        match answered.await {
            Ok(reply) => reply,
            // Lost: nobody will ever answer.
            Err(_) => pending().await,
        }
    }
}

impl Backend for Wire {
    fn now(&self) -> Moment {
        // Not zero, so that a moment can lie before the beginning.
        Moment::from_nanos(1_000_000_000_000 + self.world.elapsed().as_nanos() as u64)
    }

    fn random(&self) -> u64 {
        self.world.inner().rng.u64(..)
    }

    fn run<'a>(&'a self, lane: Lane, call: Call<'a>) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(self.run_script(Command {
            client: self.client,
            lane,
            script: Some(call.script.text()),
            keys: call.keys.to_vec(),
            args: call.args.to_vec(),
        }))
    }

    fn server_time(&self, lane: Lane) -> BoxFuture<'_, Result<u64, Fault>> {
        Box::pin(async move {
            let command = Command {
                client: self.client,
                lane,
                script: None,
                keys: Vec::new(),
                args: Vec::new(),
            };
            match self.send(command).await? {
                Reply::Number(us) => Ok(us as u64),
                reply => unreachable!("{reply:?} to TIME"),
            }
        })
    }

    fn reconnect(&self, lane: Lane) {
        self.world
            .with(|world, now| world.cut(now, self.client, lane));
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn server(&self) -> &str {
        "simulated"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
