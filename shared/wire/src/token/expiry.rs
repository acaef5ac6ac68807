//! When a token stops to count. A request is over before its token expires; a connection is not, so it must know.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul_engine::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
struct Claims {
    /// Seconds since the Unix epoch, which RFC 7519 allows to have a fraction.
    exp: f64,
}

/// The expiry of a token whose signature has been checked. None when it has none that can be read, which the check
/// does not let through.
#[must_use]
pub fn expires_at(checked_token: &str) -> Option<Timestamp> {
    let claims = URL_SAFE_NO_PAD.decode(checked_token.split('.').nth(1)?).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    let exp = std::time::Duration::try_from_secs_f64(exp).ok()?;
    Some(Timestamp::from_millis(0).plus(exp))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(claims: &str, wanted: Option<u64>) {
        let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(expires_at(&token), wanted.map(Timestamp::from_millis), "{claims}");
    }

    #[test]
    fn the_expiry_is_read() {
        check(r#"{"exp":1764440000}"#, Some(1_764_440_000_000));
        check(r#"{"exp":1764440000.25,"sub":"ada"}"#, Some(1_764_440_000_250));
        check(r#"{"exp":-1}"#, None);
        check(r#"{"exp":"soon"}"#, None);
        check("{}", None);
        check("no claims", None);
        assert_eq!(expires_at("no token"), None);
    }
}
