//! URLs of Redis servers: the connection settings in them, and addresses for errors and logs.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, RedisError};

const SENTINEL_PORT: u16 = 26_379;

/// How to find the master of a service.
#[derive(Debug)]
pub(crate) struct SentinelSettings {
    pub(crate) sentinels: Vec<ConnectionInfo>,
    pub(crate) service: String,
    /// How to connect to the master; host and port are those of a sentinel.
    pub(crate) master: ConnectionInfo,
}

/// Parses the URL of one server.
///
/// # Errors
///
/// A description of what is wrong with the URL. It quotes no more of the URL than its scheme,
/// because the rest may be a password.
pub(crate) fn server(url: &str) -> Result<ConnectionInfo, String> {
    connection_info(scheme(url), url)
}

/// Parses a URL with several hosts, which share login, database and options.
///
/// # Errors
///
/// As [`server`].
pub(crate) fn servers(url: &str) -> Result<Vec<ConnectionInfo>, String> {
    let hosts = Hosts::parse(url)?;
    hosts.names.iter().map(|host| hosts.server(hosts.login, host, hosts.path)).collect()
}

/// Parses the URL of a service that sentinels watch.
///
/// # Errors
///
/// As [`server`].
pub(crate) fn sentinels(url: &str) -> Result<SentinelSettings, String> {
    let hosts = Hosts::parse(url)?;
    let (service, database) = hosts.path.split_once('/').unwrap_or((hosts.path, ""));
    if service.is_empty() {
        let Hosts { scheme, .. } = hosts;
        return Err(format!(
            "the {scheme}:// URL names no service; write it as in {scheme}://host,host,host/mymaster"
        ));
    }
    let login = match hosts.option("sentinel_password=") {
        Some(password) => {
            format!("{}:{password}@", hosts.option("sentinel_username=").unwrap_or_default())
        }
        None => String::new(),
    };
    let sentinels = hosts.names.iter().map(|host| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let port = if has_port { String::new() } else { format!(":{SENTINEL_PORT}") };
        hosts.server(&login, &format!("{host}{port}"), "")
    });
    Ok(SentinelSettings {
        sentinels: sentinels.collect::<Result<_, _>>()?,
        service: service.to_owned(),
        master: hosts.server(hosts.login, hosts.names[0], database)?,
    })
}

fn scheme(url: &str) -> &str {
    url.split_once("://").map_or("", |(scheme, _)| scheme)
}

/// Whether connections to a URL with this scheme are encrypted.
fn is_encrypted(scheme: &str) -> bool {
    scheme == "redlocks" || scheme.starts_with("rediss")
}

fn connection_info(scheme: &str, url: &str) -> Result<ConnectionInfo, String> {
    let invalid = |error: RedisError| {
        let example = match scheme {
            "redis-sentinel" | "rediss-sentinel" => "host:26379,host:26379/service",
            "redis-cluster" | "rediss-cluster" => "user:password@host:6379,host:6379",
            "redlock" | "redlocks" => "user:password@host:6379,host:6379,host:6379",
            "redis+unix" | "unix" | "valkey+unix" => "/run/redis.sock?db=0",
            _ => "user:password@host:6379/0",
        };
        let text = error.to_string();
        let problem = text.split(" - ").next().unwrap_or_default();
        format!(
            "the {scheme}:// URL cannot be used ({problem}); write it as in {scheme}://{example}"
        )
    };
    let info = url.into_connection_info().map_err(invalid)?;
    let settings = info.redis_settings().clone();
    // RESP3 reports a disconnection at once, so it is used unless the URL says otherwise.
    let chosen = url.split_once('?').is_some_and(|(_, options)| options.contains("protocol="));
    let settings = if chosen { settings } else { settings.set_protocol(ProtocolVersion::RESP3) };
    Ok(info.set_redis_settings(settings))
}

/// The parts of a URL with several hosts.
struct Hosts<'a> {
    scheme: &'a str,
    /// With its `@`.
    login: &'a str,
    names: Vec<&'a str>,
    path: &'a str,
    options: &'a str,
}

impl<'a> Hosts<'a> {
    fn parse(url: &'a str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let names: Vec<_> = hosts.split(',').collect();
        if names.iter().any(|name| name.is_empty()) {
            return Err(format!(
                "the {scheme}:// URL has an empty host; write it as in {scheme}://host:port,host:port"
            ));
        }
        Ok(Self { scheme, login, names, path, options })
    }

    fn option(&self, name: &str) -> Option<&'a str> {
        self.options.split('&').find_map(|option| option.strip_prefix(name))
    }

    fn server(&self, login: &str, host: &str, database: &str) -> Result<ConnectionInfo, String> {
        let scheme = if is_encrypted(self.scheme) { "rediss" } else { "redis" };
        let of_servers = |option: &&str| !option.is_empty() && !option.starts_with("sentinel_");
        let options: Vec<_> = self.options.split('&').filter(of_servers).collect();
        let options = options.join("&");
        connection_info(self.scheme, &format!("{scheme}://{login}{host}/{database}?{options}"))
    }
}

/// The address without user, password and options.
pub(crate) fn name(info: &ConnectionInfo) -> String {
    let database = info.redis_settings().db();
    match info.addr() {
        addr @ ConnectionAddr::TcpTls { .. } => format!("rediss://{}/{database}", host(addr)),
        ConnectionAddr::Unix(path) if database == 0 => format!("redis+unix://{}", path.display()),
        ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={database}", path.display()),
        addr => format!("redis://{}/{database}", host(addr)),
    }
}

/// Host and port, as in a URL.
fn host(addr: &ConnectionAddr) -> String {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }
            if host.contains(':') =>
        {
            format!("[{host}]:{port}")
        }
        other => other.to_string(),
    }
}

/// The addresses of several servers without user, password and options.
pub(crate) fn names(scheme: &str, infos: &[ConnectionInfo]) -> String {
    let is_encrypted = |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    let scheme = match scheme.split_once('-') {
        _ if !infos.iter().any(is_encrypted) => scheme.to_owned(),
        Some((redis, kind)) => format!("{redis}s-{kind}"),
        None => format!("{scheme}s"),
    };
    let hosts: Vec<_> = infos.iter().map(|info| host(info.addr())).collect();
    format!("{scheme}://{}", hosts.join(","))
}

/// Returns the same settings with the address of another server.
pub(crate) fn at(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let (host, info) = (host.to_owned(), info.clone());
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    info.set_addr(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(infos: &[ConnectionInfo]) -> Vec<String> {
        infos.iter().map(name).collect()
    }

    #[test]
    fn hosts_share_login_and_options() {
        let url = "redis-cluster://me:p%40ss@a:1,b,[::1]:3?protocol=resp2";
        let nodes = servers(url).unwrap();
        assert_eq!(shown(&nodes), ["redis://a:1/0", "redis://b:6379/0", "redis://[::1]:3/0"]);
        for node in &nodes {
            let settings = node.redis_settings();
            assert_eq!((settings.username(), settings.password()), (Some("me"), Some("p@ss")));
            assert!(!settings.protocol().supports_resp3());
        }
        let nodes = servers("redlock://a,b,c/3").unwrap();
        assert_eq!(shown(&nodes), ["redis://a:6379/3", "redis://b:6379/3", "redis://c:6379/3"]);
    }

    #[test]
    fn sentinels_have_their_own_login_and_port() {
        let url = "redis-sentinel://me:secret@a,b:1/svc/2?sentinel_username=s&sentinel_password=t";
        let settings = sentinels(url).unwrap();
        assert_eq!(shown(&settings.sentinels), ["redis://a:26379/0", "redis://b:1/0"]);
        let login = settings.sentinels[0].redis_settings();
        assert_eq!((login.username(), login.password()), (Some("s"), Some("t")));
        assert_eq!(settings.service, "svc");
        assert_eq!(settings.master.redis_settings().db(), 2);
        assert_eq!(settings.master.redis_settings().password(), Some("secret"));
        let settings = sentinels("redis-sentinel://x:pw@[::1]/s").unwrap();
        assert_eq!(shown(&settings.sentinels), ["redis://[::1]:26379/0"]);
        assert_eq!(settings.sentinels[0].redis_settings().password(), None);
    }

    #[test]
    fn explains_invalid_urls_without_the_password() {
        let service = |url| sentinels(url).unwrap_err();
        let hosts = |url| servers(url).unwrap_err();
        for (error, problem) in [
            (service("redis-sentinel://a,b,c"), "names no service"),
            (service("redis-sentinel://:hunter2@a,b/"), "names no service"),
            (hosts("redis-cluster://:hunter2@a,,b"), "has an empty host"),
            (hosts("redis-cluster://"), "has an empty host"),
            (hosts("redlock://:hunter2@a:1,b:hunter2,c"), "cannot be used"),
            (server("redis://:hunter2@a:hunter2").unwrap_err(), "cannot be used"),
        ] {
            assert!(error.contains(problem), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn names_several_servers_without_the_login() {
        let named = |scheme, url| names(scheme, &servers(url).unwrap());
        assert_eq!(named("redlock", "redlock://:pw@a:1,b"), "redlock://a:1,b:6379");
        assert_eq!(named("redis-cluster", "redis-cluster://[::1]:1"), "redis-cluster://[::1]:1");
    }
}
