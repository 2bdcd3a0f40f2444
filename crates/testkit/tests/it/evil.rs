//! Every harm does what it says, over TCP and in memory.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use wharf_testkit::{EvilPeer, NetworkFault, eventually, soon, with_fault};

/// What the honest peer says first. After that it says again whatever it hears.
const HONEST: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";
const GARBAGE: usize = 64 * 1024;

async fn speak(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Vec<u8> {
    let mut heard = Vec::new();
    let _ = stream.write_all(HONEST).await;
    let mut byte = [0];
    while let Ok(1..) = stream.read(&mut byte).await {
        heard.push(byte[0]);
        let _ = stream.write_all(&byte).await;
    }
    heard
}

/// An honest peer on TCP that serves one connection after the other, each for itself.
async fn honest(tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let mut speaking = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            speaking.spawn(speak(stream));
        }
    });
    address
}

/// How reading ended.
#[derive(Debug, PartialEq)]
enum Ended {
    Properly,
    With(ErrorKind),
    /// Not at all.
    Open,
}

/// Reads until the end, or until nothing has come for a while.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> (Vec<u8>, Ended) {
    let (mut all, mut some) = (Vec::new(), [0; 1024]);
    loop {
        match timeout(Duration::from_millis(100), stream.read(&mut some)).await {
            Ok(Ok(0)) => return (all, Ended::Properly),
            Ok(Ok(length)) => all.extend(&some[..length]),
            Ok(Err(error)) => return (all, Ended::With(error.kind())),
            Err(_) => return (all, Ended::Open),
        }
    }
}

/// Says `again` and reads; the same is expected over TCP and in memory.
async fn check(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), harm: &NetworkFault) {
    let said = stream.write_all(b"again").await;
    let (bytes, ended) = read(stream).await;
    let honest = [&HONEST[..], b"again"].concat();
    match harm {
        NetworkFault::None | NetworkFault::Slice(_) | NetworkFault::Drip(_) => {
            assert_eq!((bytes, ended), (honest, Ended::Open), "{harm:?}")
        }
        NetworkFault::StallAfter(n) => assert_eq!((bytes, ended), (honest[..*n].to_vec(), Ended::Open)),
        NetworkFault::HalfCloseAfter(n) => {
            assert_eq!((bytes, ended), (honest[..*n].to_vec(), Ended::Properly));
            stream.write_all(b"still heard").await.unwrap();
        }
        NetworkFault::ResetAfter(n) => {
            assert_eq!((bytes, ended), (honest[..*n].to_vec(), Ended::With(ErrorKind::ConnectionReset)));
        }
        NetworkFault::GarbageAfter(n) => {
            assert_eq!((&bytes[..*n], bytes.len(), ended), (&honest[..*n], n + GARBAGE, Ended::Properly));
        }
        NetworkFault::ResetAfterReceiving(_) => assert_eq!(ended, Ended::With(ErrorKind::ConnectionReset)),
        NetworkFault::Refuse => {
            // Whether writing or reading hears of it first is up to the system.
            let refused = said.map_or_else(|error| Ended::With(error.kind()), |()| ended);
            assert_eq!((bytes, refused), (Vec::new(), Ended::With(ErrorKind::ConnectionReset)));
        }
    }
}

fn every_harm() -> [NetworkFault; 9] {
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
async fn every_harm_does_over_tcp_what_it_says() {
    let mut tasks = JoinSet::new();
    let evil = EvilPeer::before(honest(&mut tasks).await).await;
    for harm in every_harm() {
        evil.set_fault(0, harm.clone());
        let mut stream = TcpStream::connect(evil.address()).await.unwrap();
        soon(check(&mut stream, &harm)).await;
        if let NetworkFault::StallAfter(n) | NetworkFault::ResetAfter(n) | NetworkFault::GarbageAfter(n) = harm {
            assert_eq!(evil.bytes_to_client(), n);
        }
    }
    assert_eq!(evil.connections(), 9);
}

#[tokio::test]
async fn harm_is_done_to_the_connection_it_names_even_while_it_is_open() {
    let mut tasks = JoinSet::new();
    let evil = EvilPeer::before(honest(&mut tasks).await).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(evil.address()).await.unwrap();
        let mut first = [0; HONEST.len()];
        soon(stream.read_exact(&mut first)).await.unwrap();
        streams.push(stream);
    }
    assert_eq!(evil.bytes_to_client(), HONEST.len());
    evil.set_fault(2, NetworkFault::HalfCloseAfter(HONEST.len() + 2));
    for stream in &mut streams {
        stream.write_all(b"again").await.unwrap();
    }
    assert_eq!(soon(read(&mut streams[1])).await, (b"ag".to_vec(), Ended::Properly));
    assert_eq!(soon(read(&mut streams[0])).await, (b"again".to_vec(), Ended::Open));
    evil.set_fault_for_all(NetworkFault::Refuse);
    assert_eq!(soon(read(&mut streams[0])).await, (Vec::new(), Ended::With(ErrorKind::ConnectionReset)));
}

#[tokio::test(start_paused = true)]
async fn every_harm_does_in_memory_what_it_says() {
    let mut tasks = JoinSet::new();
    for harm in every_harm() {
        let (ours, theirs) = tokio::io::duplex(1024);
        tasks.spawn(speak(theirs));
        eventually(check(&mut with_fault(ours, harm.clone()), &harm)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn in_memory_pieces_are_as_small_and_as_late_as_they_should_be() {
    for (harm, length, took) in [(NetworkFault::Slice(3), 3, 0), (NetworkFault::Drip(Duration::from_secs(100)), 1, 100)]
    {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        theirs.write_all(HONEST).await.unwrap();
        let (mut stream, mut buffer, start) = (harmed(ours, harm), [0; 1024], Instant::now());
        assert_eq!(eventually(stream.read(&mut buffer)).await.unwrap(), length);
        assert_eq!(start.elapsed().as_secs(), took);
    }
}
