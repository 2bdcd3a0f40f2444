//! Every network fault, over TCP and in memory.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use wharf_testkit::{EvilPeer, NetworkFault, eventually, soon, with_fault};

/// What the real peer sends first. After that it echoes.
const GREETING: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";
const GARBAGE: usize = 64 * 1024;

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Vec<u8> {
    let mut received = Vec::new();
    let _ = stream.write_all(GREETING).await;
    let mut byte = [0];
    while let Ok(1..) = stream.read(&mut byte).await {
        received.push(byte[0]);
        let _ = stream.write_all(&byte).await;
    }
    received
}

/// Starts a real peer on TCP that serves any number of connections.
async fn listen(tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream));
        }
    });
    address
}

/// How reading ended.
#[derive(Debug, PartialEq)]
enum Ended {
    Cleanly,
    With(ErrorKind),
    /// Not yet.
    Open,
}

/// Reads until the end, or until nothing has arrived for a while after the `expected` number of bytes.
async fn read(stream: &mut (impl AsyncRead + Unpin), expected: usize) -> (Vec<u8>, Ended) {
    let mut all = Vec::new();
    let mut some = [0; 1024];
    loop {
        // A slow machine may take its time for what has to come.
        let limit = if all.len() < expected { Duration::from_secs(20) } else { Duration::from_millis(100) };
        match timeout(limit, stream.read(&mut some)).await {
            Ok(Ok(0)) => return (all, Ended::Cleanly),
            Ok(Ok(length)) => all.extend(&some[..length]),
            Ok(Err(error)) => return (all, Ended::With(error.kind())),
            Err(_) => return (all, Ended::Open),
        }
    }
}

/// Writes `again` and reads; the same is expected over TCP and in memory.
async fn check(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), fault: &NetworkFault) {
    let written = stream.write_all(b"again").await;
    let unmodified = [&GREETING[..], b"again"].concat();
    let expected = match fault {
        NetworkFault::None | NetworkFault::Slice(_) | NetworkFault::Drip(_) => unmodified.len(),
        NetworkFault::StallAfter(n) => *n,
        // All others end the connection.
        _ => usize::MAX,
    };
    let (bytes, ended) = read(stream, expected).await;
    match fault {
        NetworkFault::None | NetworkFault::Slice(_) | NetworkFault::Drip(_) => {
            assert_eq!((bytes, ended), (unmodified, Ended::Open), "{fault:?}");
        }
        NetworkFault::StallAfter(n) => assert_eq!((bytes, ended), (unmodified[..*n].to_vec(), Ended::Open)),
        NetworkFault::HalfCloseAfter(n) => {
            assert_eq!((bytes, ended), (unmodified[..*n].to_vec(), Ended::Cleanly));
            stream.write_all(b"still read").await.unwrap();
        }
        NetworkFault::ResetAfter(n) => {
            assert_eq!((bytes, ended), (unmodified[..*n].to_vec(), Ended::With(ErrorKind::ConnectionReset)));
        }
        NetworkFault::GarbageAfter(n) => {
            assert_eq!((&bytes[..*n], bytes.len(), ended), (&unmodified[..*n], n + GARBAGE, Ended::Cleanly));
        }
        NetworkFault::ResetAfterReceiving(_) => assert_eq!(ended, Ended::With(ErrorKind::ConnectionReset)),
        NetworkFault::Refuse => {
            // The system decides whether the write or the read fails first.
            let refused = written.map_or_else(|error| Ended::With(error.kind()), |()| ended);
            assert_eq!((bytes, refused), (Vec::new(), Ended::With(ErrorKind::ConnectionReset)));
        }
    }
}

fn every_fault() -> [NetworkFault; 9] {
    let pause = Duration::from_millis(1);
    [
        NetworkFault::None,
        NetworkFault::Slice(3),
        NetworkFault::Drip(pause),
        NetworkFault::StallAfter(7),
        NetworkFault::HalfCloseAfter(7),
        NetworkFault::ResetAfter(7),
        NetworkFault::ResetAfterReceiving(5),
        NetworkFault::GarbageAfter(7),
        NetworkFault::Refuse,
    ]
}

#[tokio::test]
async fn every_fault_works_over_tcp() {
    let mut tasks = JoinSet::new();
    let evil = EvilPeer::before(listen(&mut tasks).await).await;
    for fault in every_fault() {
        evil.set_fault(0, fault.clone());
        let mut stream = TcpStream::connect(evil.address()).await.unwrap();
        soon(check(&mut stream, &fault)).await;
        if let NetworkFault::StallAfter(n) | NetworkFault::ResetAfter(n) | NetworkFault::GarbageAfter(n) = fault {
            assert_eq!(evil.bytes_to_client(), n);
        }
    }
    assert_eq!(evil.connections(), 9);
}

#[tokio::test]
async fn a_fault_applies_to_its_connection_even_while_it_is_open() {
    let mut tasks = JoinSet::new();
    let evil = EvilPeer::before(listen(&mut tasks).await).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(evil.address()).await.unwrap();
        let mut first = [0; GREETING.len()];
        soon(stream.read_exact(&mut first)).await.unwrap();
        streams.push(stream);
    }
    assert_eq!(evil.bytes_to_client(), GREETING.len());
    evil.set_fault(2, NetworkFault::HalfCloseAfter(GREETING.len() + 2));
    for stream in &mut streams {
        stream.write_all(b"again").await.unwrap();
    }
    assert_eq!(soon(read(&mut streams[1], usize::MAX)).await, (b"ag".to_vec(), Ended::Cleanly));
    assert_eq!(soon(read(&mut streams[0], 5)).await, (b"again".to_vec(), Ended::Open));
    evil.set_fault_for_all(NetworkFault::Refuse);
    assert_eq!(soon(read(&mut streams[0], usize::MAX)).await, (Vec::new(), Ended::With(ErrorKind::ConnectionReset)));
}

#[tokio::test(start_paused = true)]
async fn every_fault_works_in_memory() {
    let mut tasks = JoinSet::new();
    for fault in every_fault() {
        let (ours, theirs) = tokio::io::duplex(1024);
        tasks.spawn(serve(theirs));
        eventually(check(&mut with_fault(ours, fault.clone()), &fault)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn chunks_in_memory_have_the_size_and_delay_of_the_fault() {
    for (fault, length, took) in
        [(NetworkFault::Slice(3), 3, 0), (NetworkFault::Drip(Duration::from_secs(100)), 1, 100)]
    {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        theirs.write_all(GREETING).await.unwrap();
        let mut stream = with_fault(ours, fault);
        let mut buffer = [0; 1024];
        let start = Instant::now();
        assert_eq!(eventually(stream.read(&mut buffer)).await.unwrap(), length);
        assert_eq!(start.elapsed().as_secs(), took);
    }
}
