//! Which URLs of a server's metadata are allowed.
//!
//! Metadata is untrusted: it could send requests to machines that only this one can reach (SSRF). So addresses outside of
//! the public internet are refused, unless the server itself is in the same zone. Names are checked by the address that
//! they resolve to when a connection is made, and the server itself by the address that it responded from.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::Uri;
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress};
use wharf_io::{DialTarget, HttpClient, HttpSettings, Proxies, Resolve};

pub(super) use crate::zone::NetworkZone;

impl NetworkZone {
    /// Returns the zone of an IP address or `localhost`; `None` for other names, which must be resolved first.
    pub(super) fn of_literal(host: &str) -> Option<Self> {
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
        if host == "localhost" || host.ends_with(".localhost") {
            return Some(Self::Loopback);
        }
        host.parse().ok().map(Self::of)
    }
}

/// A server's host whose zone was determined before a connection to it existed.
#[derive(Clone, Debug)]
pub(super) struct JudgedHost {
    pub(super) zone: NetworkZone,
    name: String,
    /// The addresses that were judged; none if the name was not resolved here.
    addresses: Vec<IpAddr>,
}

/// Returns HTTP settings that reach only addresses up to `nearest`, the zone of the server itself. Connections to a judged
/// host use the addresses that were judged, even if its name resolves to others by now.
pub(super) fn restrict(settings: &HttpSettings, nearest: NetworkZone, judged: Option<JudgedHost>) -> HttpSettings {
    let mut restricted = settings.clone();
    if let DialTarget::Tcp(names) = &settings.dial_target {
        let proxies = proxy_hosts(&settings.proxies);
        restricted.dial_target =
            DialTarget::Tcp(Some(Arc::new(RestrictedResolver { names: names.clone(), nearest, judged, proxies })));
    }
    restricted
}

/// Returns the hosts of proxies. The user configured them, so they may be in any zone.
fn proxy_hosts(proxies: &Proxies) -> Vec<String> {
    let host = |proxy: &String| {
        let address = proxy.trim();
        let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        url.parse::<Uri>().ok()?.host().map(str::to_ascii_lowercase)
    };
    [&proxies.http, &proxies.https, &proxies.all].into_iter().flatten().filter_map(host).collect()
}

/// Determines the zone of a server's host by resolving its name, for a server that has not responded yet.
pub(super) async fn judge(settings: &HttpSettings, endpoint: &Uri) -> io::Result<JudgedHost> {
    let host = endpoint.host().unwrap_or_default();
    let judged = |zone| JudgedHost { zone, name: host.to_ascii_lowercase(), addresses: Vec::new() };
    if let Some(zone) = NetworkZone::of_literal(host) {
        return Ok(judged(zone));
    }
    let names = match &settings.dial_target {
        DialTarget::Tcp(names) => names.clone(),
        // A host that provides its own streams decides what is at the other end.
        DialTarget::Unix(_) | DialTarget::Dial(_) => return Ok(judged(NetworkZone::Loopback)),
    };
    let client = HttpClient::new(settings.clone()).map_err(io::Error::other)?;
    if client.uses_proxy(&endpoint.to_string()) {
        // The proxy resolves the name, so a lookup here says nothing about the server.
        return Ok(judged(NetworkZone::Public));
    }
    let addresses = resolve(names, host.to_owned()).await?;
    let zone = addresses.iter().copied().map(NetworkZone::of).min().unwrap_or(NetworkZone::Public);
    Ok(JudgedHost { addresses, ..judged(zone) })
}

/// Returns why a URL of a server's metadata is not allowed, or `None` if it is.
pub(super) fn refusal(url: &str, nearest: NetworkZone) -> Option<String> {
    let uri = match address::parse(url, HTTP_SCHEMES) {
        Ok(uri) => uri,
        Err(invalid) => return Some(reason(&invalid).to_owned()),
    };
    let zone = NetworkZone::of_literal(uri.host().unwrap_or_default());
    if uri.scheme_str() != Some("https") && zone != Some(NetworkZone::Loopback) {
        return Some("not https".to_owned());
    }
    (zone > Some(nearest)).then(|| "private network".to_owned())
}

fn reason(invalid: &InvalidAddress) -> &'static str {
    match invalid {
        InvalidAddress::NoScheme | InvalidAddress::Scheme(_) => "not an http or https URL",
        InvalidAddress::Credentials => "contains a user name",
        InvalidAddress::NoHost => "no host",
        InvalidAddress::Port => "invalid port",
        InvalidAddress::Malformed | InvalidAddress::NumericHost | InvalidAddress::DotSegment => "invalid URL",
    }
}

#[derive(Clone)]
struct RestrictedResolver {
    names: Option<Arc<dyn Resolve>>,
    nearest: NetworkZone,
    judged: Option<JudgedHost>,
    proxies: Vec<String>,
}

impl Resolve for RestrictedResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let resolver = self.clone();
        let name = name.to_owned();
        Box::pin(async move {
            let is_judged = |judged: &JudgedHost| judged.name == name.to_ascii_lowercase();
            let judged = resolver.judged.filter(is_judged).map(|judged| judged.addresses);
            let found = match judged.filter(|addresses| !addresses.is_empty()) {
                Some(addresses) => addresses,
                None => resolve(resolver.names, name.clone()).await?,
            };
            let is_proxy = resolver.proxies.contains(&name.to_ascii_lowercase());
            let is_allowed = |address: &IpAddr| is_proxy || NetworkZone::of(*address) <= resolver.nearest;
            let allowed: Vec<_> = found.into_iter().filter(is_allowed).collect();
            if allowed.is_empty() {
                return Err(io::Error::other(format!("`{name}` resolves to a private network, which is not allowed")));
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
    fn every_notation_of_an_address_has_the_right_zone() {
        let table = [
            ("127.0.0.1", NetworkZone::Loopback),
            ("127.9.9.9", NetworkZone::Loopback),
            ("0.0.0.0", NetworkZone::Loopback),
            ("::1", NetworkZone::Loopback),
            ("::", NetworkZone::Loopback),
            ("::ffff:127.0.0.1", NetworkZone::Loopback),
            ("::127.0.0.1", NetworkZone::Loopback),
            ("64:ff9b::7f00:1", NetworkZone::Loopback),
            ("2002:7f00:1::", NetworkZone::Loopback),
            ("10.1.2.3", NetworkZone::Private),
            ("172.31.0.1", NetworkZone::Private),
            ("192.168.0.1", NetworkZone::Private),
            ("169.254.169.254", NetworkZone::LinkLocal),
            ("::ffff:169.254.169.254", NetworkZone::LinkLocal),
            ("100.64.0.1", NetworkZone::Private),
            ("198.18.0.1", NetworkZone::Private),
            ("224.0.0.1", NetworkZone::Private),
            ("255.255.255.255", NetworkZone::Private),
            ("fe80::1", NetworkZone::LinkLocal),
            ("fd00:ec2::254", NetworkZone::LinkLocal),
            ("fd00::1", NetworkZone::Private),
            ("fec0::1", NetworkZone::Private),
            ("ff02::1", NetworkZone::Private),
            ("2001:db8::1", NetworkZone::Private),
            ("1.1.1.1", NetworkZone::Public),
            ("172.32.0.1", NetworkZone::Public),
            ("2606:4700::1111", NetworkZone::Public),
            ("2002:101:101::", NetworkZone::Public),
        ];
        for (address, zone) in table {
            assert_eq!(NetworkZone::of_literal(address), Some(zone), "{address}");
        }
        assert_eq!(NetworkZone::of_literal("LOCALHOST."), Some(NetworkZone::Loopback));
        assert_eq!(NetworkZone::of_literal("[::1]"), Some(NetworkZone::Loopback));
        assert_eq!(NetworkZone::of_literal("example.com"), None);
    }

    #[test]
    fn urls_nearer_than_the_server_are_refused() {
        let public = |url: &str| refusal(url, NetworkZone::Public);
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
        assert_eq!(refusal("https://10.0.0.1/x", NetworkZone::Private), None);
        assert!(refusal("http://10.0.0.1/x", NetworkZone::Private).is_some());
        assert!(refusal("https://127.0.0.1/x", NetworkZone::Private).is_some());
        assert!(refusal("https://169.254.169.254/latest", NetworkZone::Private).is_some());
        assert!(refusal("https://[fd00:ec2::254]/latest", NetworkZone::Private).is_some());
        assert_eq!(refusal("http://127.0.0.1:8080/x", NetworkZone::Loopback), None);
    }

    fn endpoint(host: &str) -> Uri {
        format!("https://{host}/mcp").parse().unwrap()
    }

    /// Resolves every name to one address.
    struct FixedResolver(IpAddr);

    impl Resolve for FixedResolver {
        fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let address = self.0;
            Box::pin(async move { Ok(vec![address]) })
        }
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_a_private_address_is_refused_on_connect() {
        let resolver: Arc<dyn Resolve> = Arc::new(FixedResolver([127, 0, 0, 1].into()));
        let settings = HttpSettings { dial_target: DialTarget::Tcp(Some(resolver)), ..HttpSettings::default() };
        let client = wharf_io::HttpClient::new(restrict(&settings, NetworkZone::Public, None)).unwrap();
        // 127.1 is a name here, and an address to the system.
        for url in ["https://innocent.example/", "https://2130706433/", "https://127.1/", "https://0x7f000001/"] {
            let mut request = http::Request::new(bytes::Bytes::new());
            *request.uri_mut() = url.parse().unwrap();
            let error = client.send(request).await.unwrap_err().to_string();
            assert!(error.contains("private network"), "{url}: {error}");
        }
        assert_eq!(judge(&settings, &endpoint("innocent.example")).await.unwrap().zone, NetworkZone::Loopback);
    }

    #[tokio::test]
    async fn only_a_proxy_may_be_in_a_private_network() {
        let resolver: Arc<dyn Resolve> = Arc::new(FixedResolver([10, 0, 0, 1].into()));
        let proxies = Proxies { https: Some("Proxy.corp:3128".to_owned()), ..Proxies::default() };
        let settings =
            HttpSettings { dial_target: DialTarget::Tcp(Some(resolver)), proxies, ..HttpSettings::default() };
        let DialTarget::Tcp(Some(names)) = restrict(&settings, NetworkZone::Public, None).dial_target else {
            panic!("names are resolved")
        };
        assert_eq!(names.resolve("proxy.corp").await.unwrap(), [IpAddr::from([10, 0, 0, 1])]);
        assert!(names.resolve("other.corp").await.is_err());
    }

    /// Resolves nothing.
    struct FailingResolver;

    impl Resolve for FailingResolver {
        fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            Box::pin(async { Err(io::ErrorKind::NotFound.into()) })
        }
    }

    #[tokio::test]
    async fn an_unresolvable_server_is_not_treated_as_public() {
        let settings = HttpSettings::default().resolving(FailingResolver);
        assert!(judge(&settings, &endpoint("server.corp")).await.is_err());
        let proxies = Proxies { all: Some("socks5://proxy.corp".to_owned()), ..Proxies::default() };
        let judged = judge(&HttpSettings { proxies, ..settings }, &endpoint("server.corp")).await.unwrap();
        assert_eq!(judged.zone, NetworkZone::Public);
    }

    #[tokio::test]
    async fn a_name_behind_a_proxy_is_public_whatever_it_resolves_to_here() {
        let proxies = Proxies { https: Some("proxy.corp:3128".to_owned()), ..Proxies::default() };
        let settings = HttpSettings { proxies, ..HttpSettings::default() };
        let settings = settings.resolving(FixedResolver([127, 0, 0, 1].into()));
        assert_eq!(judge(&settings, &endpoint("server.example")).await.unwrap().zone, NetworkZone::Public);
    }

    /// Resolves every name to a private address once, and to a public one from then on.
    #[derive(Default)]
    struct RebindingResolver(std::sync::atomic::AtomicBool);

    impl Resolve for RebindingResolver {
        fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let is_later = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
            let address = if is_later { IpAddr::from([1, 1, 1, 1]) } else { IpAddr::from([10, 0, 0, 1]) };
            Box::pin(async move { Ok(vec![address]) })
        }
    }

    #[tokio::test]
    async fn the_address_that_was_judged_is_the_one_that_is_dialed() {
        let settings = HttpSettings::default().resolving(RebindingResolver::default());
        let judged = judge(&settings, &endpoint("Server.example")).await.unwrap();
        assert_eq!(judged.zone, NetworkZone::Private);
        let DialTarget::Tcp(Some(names)) = restrict(&settings, judged.zone, Some(judged)).dial_target else {
            panic!("names are resolved")
        };
        assert_eq!(names.resolve("server.example").await.unwrap(), [IpAddr::from([10, 0, 0, 1])]);
        assert_eq!(names.resolve("other.example").await.unwrap(), [IpAddr::from([1, 1, 1, 1])]);
    }
}
