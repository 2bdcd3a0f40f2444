//! Contenders over the pipes of a child process.

use std::collections::VecDeque;
use std::process::Stdio as Pipe;

use rmcp::transport::TokioChildProcess;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use wharf::{Environment, Stdio};

use super::{Reply, Rmcp, Wharf, floor_call, program};

pub(super) async fn wharf() -> Wharf {
    Wharf::over(Stdio::new(program(), ["serve"], Environment::default())).await
}

pub(super) async fn rmcp() -> Rmcp {
    let mut command = Command::new(program());
    command.arg("serve");
    Rmcp::over(TokioChildProcess::new(command).expect("a child")).await
}

/// Writes a line, reads a line, and parses it up to the text.
pub(super) struct Floor {
    _child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    next_id: u64,
}

impl Floor {
    pub(super) fn connect() -> Self {
        let mut command = Command::new(program());
        command.arg("serve").stdin(Pipe::piped()).stdout(Pipe::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("a child");
        let stdin = child.stdin.take().expect("stdin");
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().expect("stdout"));
        Self { _child: child, stdin, stdout, line: Vec::new(), next_id: 1 }
    }

    pub(super) async fn call(&mut self, tool: &str) {
        let id = self.send(tool).await;
        assert_eq!(self.receive().await, id);
    }

    pub(super) async fn pipelined(&mut self, calls: usize, in_flight: usize) {
        let mut waiting = VecDeque::new();
        for _ in 0..calls {
            if waiting.len() == in_flight {
                assert_eq!(Some(self.receive().await), waiting.pop_front());
            }
            waiting.push_back(self.send("small").await);
        }
        while let Some(id) = waiting.pop_front() {
            assert_eq!(self.receive().await, id);
        }
    }

    async fn send(&mut self, tool: &str) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let line = floor_call(id, tool) + "\n";
        self.stdin.write_all(line.as_bytes()).await.expect("a line");
        id
    }

    async fn receive(&mut self) -> u64 {
        self.line.clear();
        self.stdout.read_until(b'\n', &mut self.line).await.expect("a line");
        Reply::read(&self.line)
    }
}
