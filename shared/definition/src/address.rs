//! Which addresses a tool may reach.
//!
//! A worker can reach what its callers must not: the metadata service that hands out its role, its own runtime on
//! loopback, the machines beside it. So an address is judged twice by the same rules: as it is written, when a definition
//! is checked, and as the number that is really connected to, when a tool runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// What a deployment allows and refuses beyond the rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Hosts that may be reached whatever their address: a name, a name's subdomains as `*.name`, or an address.
    pub allowed_hosts: Vec<String>,
    /// Hosts that may not be reached whatever their address, in the same form. They win over the allowed ones.
    pub refused_hosts: Vec<String>,
}

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is no address.
    #[error("is no address: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
    /// Only HTTP is spoken.
    #[error("begins with `{scheme}:`; only http and https are spoken")]
    Scheme {
        /// What it begins with.
        scheme: String,
    },
    /// It holds a user name or password.
    #[error("holds a user name or password; use `auth` with the name of a secret")]
    Credentials,
    /// It leads to this machine or its neighbours.
    #[error("leads to {host}, which is not on the public internet")]
    NotPublic {
        /// Where it leads.
        host: String,
    },
    /// The deployment refuses it.
    #[error("leads to {host}, which this deployment refuses")]
    Refused {
        /// Where it leads.
        host: String,
    },
}

impl Policy {
    /// The policy that allows these hosts, written with commas between, as `LONGHAUL_TOOL_HOSTS` has them.
    #[must_use]
    pub fn allowing(hosts: &str) -> Self {
        let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        Self { allowed_hosts: hosts.map(str::to_owned).collect(), ..Self::default() }
    }

    /// Whether the deployment allows this host whatever its address.
    #[must_use]
    pub fn allows(&self, host: &str) -> bool {
        matches(&self.allowed_hosts, host)
    }

    /// Whether the deployment refuses this host whatever its address.
    #[must_use]
    pub fn refuses(&self, host: &str) -> bool {
        matches(&self.refused_hosts, host)
    }

    /// An entry that can never match, since it is no host: with what is wrong with it.
    #[must_use]
    pub fn fault(&self) -> Option<(&str, &'static str)> {
        let all = self.allowed_hosts.iter().chain(&self.refused_hosts);
        all.filter_map(|entry| Some((entry.as_str(), entry_fault(entry)?))).next()
    }

    /// Judges an address as it is written: its scheme, its credentials, its host where that is a number or a name that
    /// never leads to the public internet. What another name leads to is only known when it is connected to.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn judge(&self, address: &str) -> Result<Url, AddressError> {
        let url = Url::parse(address).map_err(|error| AddressError::Malformed { reason: error.to_string() })?;
        self.judge_url(&url)?;
        Ok(url)
    }

    /// Judges an address that was read already.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn judge_url(&self, url: &Url) -> Result<(), AddressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme { scheme: url.scheme().to_owned() });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Credentials);
        }
        let Some(host) = url.host() else {
            return Err(AddressError::Malformed { reason: "it names no host".to_owned() });
        };
        let shown = bare(&host.to_string());
        if self.refuses(&shown) {
            return Err(AddressError::Refused { host: shown });
        }
        if self.allows(&shown) {
            return Ok(());
        }
        let public = match host {
            Host::Ipv4(address) => is_public(IpAddr::V4(address)),
            Host::Ipv6(address) => is_public(IpAddr::V6(address)),
            Host::Domain(name) => !is_inward(name),
        };
        if public { Ok(()) } else { Err(AddressError::NotPublic { host: shown }) }
    }
}

/// A host without the brackets of an IPv6 address and the dot at the end of a full name, in small letters.
fn bare(host: &str) -> String {
    host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

/// Why an entry of a policy is no host.
fn entry_fault(entry: &str) -> Option<&'static str> {
    if entry.contains("//") || entry.contains('/') {
        return Some("holds a scheme or a path; write the host alone");
    }
    let unbracketed = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    if unbracketed.parse::<IpAddr>().is_ok() {
        return None;
    }
    if entry.contains(':') {
        return Some("holds a port; a host is allowed on all its ports, write it alone");
    }
    let name = entry.strip_prefix("*.").unwrap_or(entry);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if is_name { None } else { Some("is no host: a name, `*.name` or an address") }
}

fn matches(patterns: &[String], host: &str) -> bool {
    let host = bare(host);
    patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).any(|pattern| match pattern.strip_prefix("*.") {
        Some(parent) => host.strip_suffix(parent).is_some_and(|front| front.ends_with('.')),
        None => bare(&pattern) == host,
    })
}

/// Names that never lead to the public internet (RFC 6761, RFC 6762, and what clouds use inside).
fn is_inward(name: &str) -> bool {
    let name = bare(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    !name.contains('.') || matches!(last, "localhost" | "local" | "internal" | "home" | "lan" | "corp")
}

/// Whether an address is one of the public internet, by the registries of special addresses (IANA, RFC 6890 and later).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        // "This network", and everything that is reserved at the end.
        || a == 0
        || a >= 240
        // Shared address space of carriers (RFC 6598), in which some clouds keep their metadata.
        || (a == 100 && (64..128).contains(&b))
        // Protocol assignments and the old relays to IPv6.
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        // Benchmarks (RFC 2544).
        || (a == 198 && (18..20).contains(&b));
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // An IPv4 address in disguise is judged as what it is: mapped, compatible, NAT64 (RFC 6052) and 6to4 (RFC 3056).
    let [a, b, c, d, e, f, g, h] = address.segments();
    let as_v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => return is_public_v4(as_v4(g, h)),
        (0x2002, high, low, ..) => return is_public_v4(as_v4(high, low)),
        _ => {}
    }
    // Only 2000::/3 is given out; of it, not Teredo, the documentation, benchmarks and identifiers.
    let given_out = (a & 0xe000) == 0x2000;
    let special = match a {
        0x2001 => b < 0x200 || b == 0xdb8,
        0x3fff => b < 0x1000,
        _ => false,
    };
    given_out && !special
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn numbers_are_judged() {
        let cases = [
            ("93.184.216.34", true),
            ("8.8.8.8", true),
            ("10.0.0.5", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("169.254.170.2", false),
            ("100.100.100.200", false),
            ("100.128.0.1", true),
            ("192.0.0.8", false),
            ("198.18.0.1", false),
            ("203.0.113.9", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:2800:220:1:248:1893:25c8:1946", true),
            ("::1", false),
            ("::", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("ff02::1", false),
            ("::ffff:169.254.169.254", false),
            ("::ffff:93.184.216.34", true),
            ("::7f00:1", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b::5db8:d822", true),
            ("2002:7f00:1::", false),
            ("2001:db8::1", false),
            ("2001::1", false),
        ];
        for (address, public) in cases {
            assert_eq!(is_public(address.parse().expect("an address")), public, "{address}");
        }
    }

    #[test]
    fn a_deployment_may_allow_and_refuse() {
        let policy = Policy {
            allowed_hosts: vec!["127.0.0.1".to_owned(), "*.inside.internal".to_owned(), "[::1]".to_owned()],
            refused_hosts: vec!["*.amazonaws.com".to_owned(), "bad.inside.internal".to_owned()],
        };
        let cases = [
            ("http://127.0.0.1:9001/x", true),
            ("http://[::1]/x", true),
            ("http://127.0.0.2/", false),
            ("http://a.inside.internal/", true),
            ("http://a.inside.internal./", true),
            ("http://inside.internal/", false),
            ("http://xinside.internal/", false),
            ("http://bad.inside.internal/", false),
            ("https://dynamodb.eu-west-1.amazonaws.com/", false),
            ("https://amazonaws.com/", true),
            ("https://example.com/", true),
            ("https://localhost/", false),
            ("https://printer/", false),
            ("https://printer.local/", false),
        ];
        for (address, good) in cases {
            assert_eq!(policy.judge(address).is_ok(), good, "{address}");
        }
    }
}
