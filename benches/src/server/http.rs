//! The measured part of Streamable HTTP: POSTs with JSON responses on persistent connections, with a thread per
//! connection. Prints its port to stdout and ends with its stdin.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{LARGE, answer, huge, model};

/// Length of a huge result, as a multiple of a large one.
const HUGE: usize = 200;

#[derive(Default)]
struct Server {
    large: String,
    /// Number of accepted connections.
    connections: AtomicU64,
    /// The current session; all clients share it until it is forgotten.
    session: AtomicU64,
}

/// The relevant parts of a request's head.
struct Head {
    method: String,
    session: Option<u64>,
    length: usize,
}

pub(crate) fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    writeln!(io::stdout(), "{port}").expect("stdout is open");
    let server = Arc::new(Server { large: "x".repeat(LARGE), ..Server::default() });
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            server.connections.fetch_add(1, Ordering::Relaxed);
            let server = Arc::clone(&server);
            // Errors of disconnected clients do not matter.
            thread::spawn(move || server.serve_connection(&stream));
        }
    });
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

impl Server {
    fn serve_connection(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut input = BufReader::with_capacity(1 << 16, stream);
        let mut output = BufWriter::with_capacity(1 << 16, stream);
        let mut content = Vec::new();
        let mut reply = Vec::new();
        while let Some(head) = read_head(&mut input)? {
            content.resize(head.length, 0);
            input.read_exact(&mut content)?;
            let message = String::from_utf8_lossy(&content);
            reply.clear();
            match head.method.as_str() {
                "POST" => self.post(&head, &message, &mut reply, &mut output)?,
                // Not part of the protocol: the number of accepted connections.
                "COUNT" => {
                    let connections = self.connections.load(Ordering::Relaxed);
                    respond("200 OK", "", connections.to_string().as_bytes(), &mut output)?;
                }
                "DELETE" => respond("200 OK", "", b"", &mut output)?,
                _ => respond("405 Method Not Allowed", "", b"", &mut output)?,
            }
            output.flush()?;
        }
        Ok(())
    }

    fn post(&self, head: &Head, message: &str, reply: &mut Vec<u8>, output: &mut impl Write) -> io::Result<()> {
        if model::is_model_request(message) {
            return model::answer(message, output);
        }
        let session = self.session.load(Ordering::Relaxed);
        if head.session.is_some_and(|given| given != session) {
            return respond("404 Not Found", "", b"", output);
        }
        if message.contains("\"huge\"") {
            huge(message, 0, reply)?;
            begin("200 OK", &format!("Content-Length: {}\r\n", reply.len() + HUGE * LARGE), output)?;
            return huge(message, HUGE, output);
        }
        if message.contains("\"huge-in-chunks\"") {
            begin("200 OK", "Transfer-Encoding: chunked\r\n", output)?;
            huge(message, HUGE, &mut Chunked(&mut *output))?;
            return output.write_all(b"0\r\n\r\n");
        }
        if message.contains("\"forget\"") {
            self.session.fetch_add(1, Ordering::Relaxed);
        }
        answer(message, &self.large, reply);
        if reply.is_empty() {
            respond("202 Accepted", "", b"", output)
        } else if message.contains("\"initialize\"") {
            respond("200 OK", &format!("Mcp-Session-Id: {session}\r\n"), reply, output)
        } else {
            respond("200 OK", "", reply, output)
        }
    }
}

/// Reads the head of a request; `None` at the end of the connection.
fn read_head(input: &mut BufReader<&TcpStream>) -> io::Result<Option<Head>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let method = line.split(' ').next().unwrap_or_default().to_owned();
    let mut head = Head { method, session: None, length: 0 };
    loop {
        line.clear();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { return Ok(Some(head)) };
        if name.eq_ignore_ascii_case("content-length") {
            head.length = value.trim().parse().unwrap_or(0);
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            head.session = value.trim().parse().ok();
        }
    }
}

fn begin(status: &str, headers: &str, output: &mut impl Write) -> io::Result<()> {
    write!(output, "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}\r\n")
}

fn respond(status: &str, headers: &str, content: &[u8], output: &mut impl Write) -> io::Result<()> {
    begin(status, &format!("{headers}Content-Length: {}\r\n", content.len()), output)?;
    output.write_all(content)
}

/// Writes everything as a chunk.
struct Chunked<'a, W>(&'a mut W);

impl<W: Write> Write for Chunked<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write!(self.0, "{:x}\r\n", bytes.len())?;
        self.0.write_all(bytes)?;
        self.0.write_all(b"\r\n")?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
