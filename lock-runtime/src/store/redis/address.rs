//! Where the server is: URLs in, a client out, and the address as errors and logs show it.

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, RedisError,
};

const KNOWN: [&str; 7] =
    ["redis", "rediss", "redis+unix", "unix", "valkey", "valkeys", "valkey+unix"];

/// The client for a URL, or what is wrong with the URL. Of the URL itself at most the scheme is
/// quoted, since the rest may be a password.
pub(super) fn client(url: &str) -> Result<Client, String> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    if matches!(scheme, "rediss" | "valkeys") && !cfg!(feature = "tls") {
        return Err(format!("{scheme}:// needs the feature `tls` of lock-runtime"));
    }
    let is_word = scheme.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '+' | '-'));
    if scheme.is_empty() || !is_word {
        return Err("the URL has no scheme; write it as in redis://localhost:6379/0".into());
    }
    if !KNOWN.contains(&scheme) {
        let help = "use redis://, rediss://, redis+unix:// or memory://";
        return Err(format!("{scheme}:// is no kind of URL known here; {help}"));
    }
    let invalid = |error: RedisError| {
        let example = "redis://user:password@host:6379/0";
        let text = error.to_string();
        let problem = text.split(" - ").next().unwrap_or_default();
        format!("the {scheme}:// URL cannot be used ({problem}); write it as in {example}")
    };
    let info = url.into_connection_info().map_err(invalid)?;
    let settings = info.redis_settings().clone();
    // Disconnects are noticed at once with RESP3, so it is used unless the URL says otherwise.
    let chosen = url.split_once('?').is_some_and(|(_, options)| options.contains("protocol="));
    let settings = if chosen { settings } else { settings.set_protocol(ProtocolVersion::RESP3) };
    Client::open(info.set_redis_settings(settings)).map_err(invalid)
}

/// The address without user, password and options.
pub(super) fn name(info: &ConnectionInfo) -> String {
    let database = info.redis_settings().db();
    match info.addr() {
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{host}:{port}/{database}"),
        ConnectionAddr::Unix(path) if database == 0 => format!("redis+unix://{}", path.display()),
        ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={database}", path.display()),
        other => format!("redis://{other}/{database}"),
    }
}

/// Chooses how to encrypt, unless the application has chosen.
#[cfg(feature = "tls")]
pub(super) fn prepare_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that somebody else was faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
