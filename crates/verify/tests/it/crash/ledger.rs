//! The paid provider: it answers over loopback HTTP and writes down every request that it answers.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tempfile::TempDir;

/// A bound for every wait.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) struct Ledger {
    pub(crate) port: u16,
    folder: TempDir,
    gate: Arc<Gate>,
    paid: Arc<AtomicUsize>,
}

/// Whether requests are answered.
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Ledger {
    /// Starts the provider in this process, which is not the one that is killed. Each answer takes `delay`.
    pub(crate) fn start(delay: Duration) -> Self {
        Self::start_with(delay, true)
    }

    /// Starts a provider that takes requests, and answers when it is opened.
    pub(crate) fn start_closed() -> Self {
        Self::start_with(Duration::ZERO, false)
    }

    fn start_with(delay: Duration, is_open: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let file = OpenOptions::new().create(true).append(true).open(folder.path().join("ledger")).unwrap();
        let file = Arc::new(Mutex::new(file));
        let gate = Arc::new(Gate { is_open: Mutex::new(is_open), opened: Condvar::new() });
        let paid = Arc::new(AtomicUsize::new(0));
        let (shared, counter) = (Arc::clone(&gate), Arc::clone(&paid));
        // The threads end with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, file, gate) = (stream.unwrap(), Arc::clone(&file), Arc::clone(&shared));
                let paid = Arc::clone(&counter);
                std::thread::spawn(move || answer(stream, (&file, &paid), &gate, delay));
            }
        });
        Self { port, folder, gate, paid }
    }

    /// Answers all requests, also those that wait.
    pub(crate) fn open(&self) {
        *self.gate.is_open.lock().unwrap() = true;
        self.gate.opened.notify_all();
    }

    /// Returns the number of requests so far.
    pub(crate) fn paid(&self) -> usize {
        self.paid.load(Ordering::Relaxed)
    }

    /// Returns how often each step was paid for.
    pub(crate) fn calls(&self) -> BTreeMap<String, u32> {
        let mut calls = BTreeMap::new();
        for key in std::fs::read_to_string(self.folder.path().join("ledger")).unwrap().lines() {
            *calls.entry(key.to_owned()).or_default() += 1;
        }
        calls
    }

    /// Waits for a number of requests.
    pub(crate) fn wait_for(&self, requests: usize) {
        let deadline = tokio::time::Instant::now() + SOON;
        while self.calls().len() < requests {
            assert!(tokio::time::Instant::now() < deadline, "no {requests} requests in time");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The payment happens when the request arrives: a client that dies while it waits has paid.
fn answer(mut stream: TcpStream, (file, paid): (&Mutex<File>, &AtomicUsize), gate: &Gate, delay: Duration) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(request)) = lines.next() else { return };
    for line in lines {
        match line {
            Ok(line) if !line.is_empty() => {}
            _ => break,
        }
    }
    let key = request.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
    writeln!(file.lock().unwrap(), "{key}").unwrap();
    paid.fetch_add(1, Ordering::Relaxed);
    drop(gate.opened.wait_while(gate.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
    std::thread::sleep(delay);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}
