//! Which addresses a sign-in may lead to. What a server says about who lets us in is not to be trusted: it could make us
//! ask machines that only we can reach. So addresses that are not everybody's are refused, unless the server itself is at
//! one of that kind, and they are looked at when a connection is made, whatever the name was.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::Uri;
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress};
use wharf_io::{DialTarget, HttpSettings, Proxies, Resolve};

/// How far away an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nearness {
    /// Anybody's.
    Public,
    /// In a network that is not everybody's.
    Private,
    /// This machine.
    Here,
}

impl Nearness {
    pub(super) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// That of a host as it is written, if it can be told without asking anybody.
    pub(super) fn written(host: &str) -> Option<Self> {
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
        if host == "localhost" || host.ends_with(".localhost") {
            return Some(Self::Here);
        }
        host.parse().ok().map(Self::of)
    }
}

fn of_v4(address: Ipv4Addr) -> Nearness {
    let [a, b, c, _] = address.octets();
    let private = address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || (a == 192 && b == 0 && c == 0);
    match address {
        _ if address.is_loopback() || address.is_unspecified() => Nearness::Here,
        _ if private => Nearness::Private,
        _ => Nearness::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Nearness {
    if address.is_loopback() || address.is_unspecified() {
        return Nearness::Here;
    }
    let within = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        // IPv4 in other clothes: mapped, compatible, translated, 6to4, Teredo.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            of_v4(within(high, low))
        }
        [0x2001, 0 | 0xdb8, ..] | [0x64, 0xff9b, 1, ..] => Nearness::Private,
        // Only these are everybody's.
        [first, ..] if first & 0xe000 == 0x2000 => Nearness::Public,
        _ => Nearness::Private,
    }
}

/// The settings with which what a server names is looked at: only what is no nearer than the server itself can be reached.
pub(super) fn guarded(settings: &HttpSettings, nearest: Nearness) -> HttpSettings {
    let mut guarded = settings.clone();
    if let DialTarget::Tcp(names) = &settings.way {
        let proxies = proxies(&settings.proxies);
        guarded.way = DialTarget::Tcp(Some(Arc::new(Guarded { names: names.clone(), nearest, proxies })));
    }
    guarded
}

/// The hosts of proxies. Whoever set us up chose them, so they may be anywhere.
fn proxies(proxies: &Proxies) -> Vec<String> {
    let host = |proxy: &String| {
        let address = proxy.trim();
        let whole = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        whole.parse::<Uri>().ok()?.host().map(str::to_ascii_lowercase)
    };
    [&proxies.http, &proxies.https, &proxies.all].into_iter().flatten().filter_map(host).collect()
}

/// How near a server is, by its address or by what its name stands for now.
pub(super) async fn nearness(settings: &HttpSettings, host: &str) -> io::Result<Nearness> {
    if let Some(written) = Nearness::written(host) {
        return Ok(written);
    }
    let names = match &settings.way {
        DialTarget::Tcp(names) => names.clone(),
        // Whoever makes streams of its own knows what is at the other end.
        DialTarget::Unix(_) | DialTarget::Dial(_) => return Ok(Nearness::Here),
    };
    let found = match resolve(names, host.to_owned()).await {
        // Behind a proxy it is the proxy that knows names.
        Err(_) if !proxies(&settings.proxies).is_empty() => Vec::new(),
        found => found?,
    };
    Ok(found.into_iter().map(Nearness::of).min().unwrap_or(Nearness::Public))
}

/// Why an address that a server names is not used.
pub(super) fn refusal(url: &str, nearest: Nearness) -> Option<String> {
    let uri = match address::parse(url, HTTP_SCHEMES) {
        Ok(uri) => uri,
        Err(invalid) => return Some(reason(&invalid).to_owned()),
    };
    let near = Nearness::written(uri.host().unwrap_or_default());
    if uri.scheme_str() != Some("https") && near != Some(Nearness::Here) {
        return Some("it is not https".to_owned());
    }
    (near > Some(nearest)).then(|| "it leads into a private network".to_owned())
}

fn reason(invalid: &InvalidAddress) -> &'static str {
    match invalid {
        InvalidAddress::NoScheme | InvalidAddress::Scheme(_) => "it is no address of the web",
        InvalidAddress::Credentials => "it has a user in it",
        InvalidAddress::NoHost => "it names no host",
        InvalidAddress::Port => "its port is none",
        InvalidAddress::Malformed | InvalidAddress::NumericHost | InvalidAddress::DotSegment => "it cannot be read",
    }
}

#[derive(Clone)]
struct Guarded {
    names: Option<Arc<dyn Resolve>>,
    nearest: Nearness,
    proxies: Vec<String>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (guarded, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let found = resolve(guarded.names, name.clone()).await?;
            let is_proxy = guarded.proxies.contains(&name.to_ascii_lowercase());
            let may = |address: &IpAddr| is_proxy || Nearness::of(*address) <= guarded.nearest;
            let allowed: Vec<_> = found.into_iter().filter(may).collect();
            if allowed.is_empty() {
                return Err(io::Error::other(format!("`{name}` leads into a private network, which is refused")));
            }
            Ok(allowed)
        })
    }
}

async fn resolve(names: Option<Arc<dyn Resolve>>, name: String) -> io::Result<Vec<IpAddr>> {
    match names {
        Some(names) => names.resolve(&name).await,
        None => Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_as_near_as_it_is_however_it_is_written() {
        let table = [
            ("127.0.0.1", Nearness::Here),
            ("127.9.9.9", Nearness::Here),
            ("0.0.0.0", Nearness::Here),
            ("::1", Nearness::Here),
            ("::", Nearness::Here),
            ("::ffff:127.0.0.1", Nearness::Here),
            ("::127.0.0.1", Nearness::Here),
            ("64:ff9b::7f00:1", Nearness::Here),
            ("2002:7f00:1::", Nearness::Here),
            ("10.1.2.3", Nearness::Private),
            ("172.31.0.1", Nearness::Private),
            ("192.168.0.1", Nearness::Private),
            ("169.254.169.254", Nearness::Private),
            ("::ffff:169.254.169.254", Nearness::Private),
            ("100.64.0.1", Nearness::Private),
            ("198.18.0.1", Nearness::Private),
            ("224.0.0.1", Nearness::Private),
            ("255.255.255.255", Nearness::Private),
            ("fe80::1", Nearness::Private),
            ("fd00::1", Nearness::Private),
            ("fec0::1", Nearness::Private),
            ("ff02::1", Nearness::Private),
            ("2001:db8::1", Nearness::Private),
            ("1.1.1.1", Nearness::Public),
            ("172.32.0.1", Nearness::Public),
            ("2606:4700::1111", Nearness::Public),
            ("2002:101:101::", Nearness::Public),
        ];
        for (address, near) in table {
            assert_eq!(Nearness::written(address), Some(near), "{address}");
        }
        assert_eq!(Nearness::written("LOCALHOST."), Some(Nearness::Here));
        assert_eq!(Nearness::written("[::1]"), Some(Nearness::Here));
        assert_eq!(Nearness::written("example.com"), None);
    }

    #[test]
    fn what_a_server_names_is_refused_where_it_is_nearer_than_the_server() {
        let public = |url: &str| refusal(url, Nearness::Public);
        assert_eq!(public("https://example.com/x"), None);
        for url in [
            "https://127.0.0.1/x",
            "http://localhost/x",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest",
            "http://example.com/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://user:word@example.com/",
            "https:///x",
            "nonsense",
        ] {
            assert!(public(url).is_some(), "{url}");
        }
        assert_eq!(refusal("https://10.0.0.1/x", Nearness::Private), None);
        assert!(refusal("http://10.0.0.1/x", Nearness::Private).is_some());
        assert!(refusal("https://127.0.0.1/x", Nearness::Private).is_some());
        assert_eq!(refusal("http://127.0.0.1:8080/x", Nearness::Here), None);
    }

    /// Whatever is asked for, this one says it is here.
    struct Liar(IpAddr);

    impl Resolve for Liar {
        fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let address = self.0;
            Box::pin(async move { Ok(vec![address]) })
        }
    }

    #[tokio::test]
    async fn a_name_that_stands_for_a_private_address_is_refused_when_it_is_dialled() {
        let liar: Arc<dyn Resolve> = Arc::new(Liar([127, 0, 0, 1].into()));
        let settings = HttpSettings { way: DialTarget::Tcp(Some(liar)), ..HttpSettings::default() };
        let client = wharf_io::HttpClient::new(guarded(&settings, Nearness::Public)).unwrap();
        // 127.1 is no address to us, and one to the system.
        for url in ["https://innocent.example/", "https://2130706433/", "https://127.1/", "https://0x7f000001/"] {
            let mut request = http::Request::new(bytes::Bytes::new());
            *request.uri_mut() = url.parse().unwrap();
            let error = client.send(request).await.unwrap_err().to_string();
            assert!(error.contains("private network"), "{url}: {error}");
        }
        assert_eq!(nearness(&settings, "innocent.example").await.unwrap(), Nearness::Here);
    }

    #[tokio::test]
    async fn a_proxy_may_be_in_a_private_network_and_only_the_proxy() {
        let liar: Arc<dyn Resolve> = Arc::new(Liar([10, 0, 0, 1].into()));
        let proxies = Proxies { https: Some("Proxy.corp:3128".to_owned()), ..Proxies::default() };
        let settings = HttpSettings { way: DialTarget::Tcp(Some(liar)), proxies, ..HttpSettings::default() };
        let DialTarget::Tcp(Some(names)) = guarded(&settings, Nearness::Public).way else {
            panic!("names are looked up")
        };
        assert_eq!(names.resolve("proxy.corp").await.unwrap(), [IpAddr::from([10, 0, 0, 1])]);
        assert!(names.resolve("other.corp").await.is_err());
    }

    /// Knows nobody.
    struct Ignorant;

    impl Resolve for Ignorant {
        fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            Box::pin(async { Err(io::ErrorKind::NotFound.into()) })
        }
    }

    #[tokio::test]
    async fn a_server_whose_name_stands_for_nothing_now_is_not_taken_for_one_that_is_far_away() {
        let settings = HttpSettings::default().resolving(Ignorant);
        assert!(nearness(&settings, "server.corp").await.is_err());
        let proxies = Proxies { all: Some("socks5://proxy.corp".to_owned()), ..Proxies::default() };
        assert_eq!(nearness(&HttpSettings { proxies, ..settings }, "server.corp").await.unwrap(), Nearness::Public);
    }
}
