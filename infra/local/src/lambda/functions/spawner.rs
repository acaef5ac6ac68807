//! The one thread that starts processes.
//!
//! The kernel's parent-death signal, which function processes arm, fires when the *thread* that started them ends, not
//! the process. A tokio worker may end early (a blocking section hands its work to another thread and retires), so
//! processes are started from a thread that lives exactly as long as the platform.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct Spawner {
    orders: mpsc::Sender<Order>,
}

#[derive(Debug)]
struct Order {
    command: Command,
    child: oneshot::Sender<io::Result<Child>>,
}

impl Spawner {
    /// Starts the thread. Must be called within a tokio runtime, which then watches the processes.
    pub(super) fn start() -> io::Result<Self> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let runtime = Handle::current();
        thread::Builder::new().name("function-spawner".to_owned()).spawn(move || {
            let _entered = runtime.enter();
            while let Ok(Order { mut command, child }) = inbox.recv() {
                // Whoever gave up waiting drops the child, and with it the process (`kill_on_drop`).
                let _abandoned = child.send(command.spawn());
            }
        })?;
        Ok(Self { orders })
    }

    pub(super) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let ended = || io::Error::other("the thread that starts processes has ended");
        let (child, started) = oneshot::channel();
        self.orders.send(Order { command, child }).map_err(|_| ended())?;
        started.await.map_err(|_| ended())?
    }
}
