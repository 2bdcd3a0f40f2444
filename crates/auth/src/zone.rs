//! Where an address is: on the public internet, in a private network, on the local link, or on this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network zone of an address. Later variants are nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkZone {
    /// The public internet.
    Public,
    /// A private network.
    Private,
    /// The local link, where the metadata service of a cloud gives out credentials. A server of the private network may
    /// not refer to it.
    LinkLocal,
    /// This machine.
    Loopback,
}

impl NetworkZone {
    /// Returns the zone of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> NetworkZone {
    let [a, b, c, _] = address.octets();
    let is_private = address.is_private()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || (a == 192 && b == 0 && c == 0);
    match address {
        _ if address.is_loopback() || address.is_unspecified() => NetworkZone::Loopback,
        _ if address.is_link_local() => NetworkZone::LinkLocal,
        _ if is_private => NetworkZone::Private,
        _ => NetworkZone::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> NetworkZone {
    if address.is_loopback() || address.is_unspecified() {
        return NetworkZone::Loopback;
    }
    let embedded = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        // Embedded IPv4 addresses: mapped, compatible, translated, 6to4, Teredo.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            of_v4(embedded(high, low))
        }
        [0x2001, 0 | 0xdb8, ..] | [0x64, 0xff9b, 1, ..] => NetworkZone::Private,
        [first, ..] if first & 0xffc0 == 0xfe80 => NetworkZone::LinkLocal,
        // EC2 has its metadata service here.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => NetworkZone::LinkLocal,
        // Only these are global unicast addresses.
        [first, ..] if first & 0xe000 == 0x2000 => NetworkZone::Public,
        _ => NetworkZone::Private,
    }
}
