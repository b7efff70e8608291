//! Where the servers are: URLs in, connection settings out, and addresses as errors and logs show them.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, RedisError};

const KNOWN: [&str; 13] = [
    "redis",
    "rediss",
    "redis+unix",
    "unix",
    "valkey",
    "valkeys",
    "valkey+unix",
    "redis-sentinel",
    "rediss-sentinel",
    "redis-cluster",
    "rediss-cluster",
    "redlock",
    "redlocks",
];
const SENTINEL_PORT: u16 = 26_379;

/// What a URL leads to.
#[derive(Debug)]
pub(crate) enum Address {
    /// Servers that know of each other, of which one keeps a lock.
    Redis(Topology),
    /// Servers that do not, and keep it together.
    Redlock(Vec<ConnectionInfo>),
}

/// How the servers know of each other.
#[derive(Debug)]
pub(crate) enum Topology {
    /// There is one.
    Server(Box<ConnectionInfo>),
    /// Sentinels name the master.
    Sentinel(Box<SentinelAddress>),
    /// These are some of the servers of a cluster.
    Cluster(Vec<ConnectionInfo>),
}

#[derive(Debug)]
pub(crate) struct SentinelAddress {
    pub(super) sentinels: Vec<ConnectionInfo>,
    pub(super) service: String,
    /// How to connect to the master; its host and port are those of a sentinel.
    pub(super) master: ConnectionInfo,
}

impl Address {
    /// What a URL leads to, or what is wrong with it. Of the URL itself at most the scheme is quoted,
    /// since the rest may be a password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let is_word = scheme.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '+' | '-'));
        if scheme.is_empty() || !is_word {
            return Err("the URL has no scheme; write it as in redis://localhost:6379/0".into());
        }
        if !KNOWN.contains(&scheme) {
            let help = "use redis://, redis-sentinel://, redis-cluster://, redlock:// (with TLS: \
                        rediss://, rediss-sentinel://, rediss-cluster://, redlocks://), \
                        redis+unix:// or memory://";
            return Err(format!("{scheme}:// is no kind of URL known here; {help}"));
        }
        let encrypted = matches!(scheme, "valkeys" | "redlocks") || scheme.starts_with("rediss");
        if encrypted && !cfg!(feature = "tls") {
            return Err(format!("{scheme}:// needs the feature `tls` of lock-runtime"));
        }
        match scheme {
            "redis-sentinel" | "rediss-sentinel" => {
                let address = sentinel(&Hosts::of(scheme, rest)?)?;
                Ok(Self::Redis(Topology::Sentinel(address.into())))
            }
            "redis-cluster" | "rediss-cluster" => {
                let nodes = Hosts::of(scheme, rest)?.all()?;
                Ok(Self::Redis(Topology::Cluster(nodes)))
            }
            "redlock" | "redlocks" => Hosts::of(scheme, rest)?.all().map(Self::Redlock),
            _ => Ok(Self::Redis(Topology::Server(server(scheme, url)?.into()))),
        }
    }

    /// How to connect to each of the servers.
    #[cfg(feature = "tls")]
    pub(super) fn servers(&mut self) -> Vec<&mut ConnectionInfo> {
        match self {
            Self::Redis(Topology::Server(server)) => vec![server],
            Self::Redis(Topology::Sentinel(address)) => {
                let SentinelAddress { sentinels, master, .. } = &mut **address;
                sentinels.iter_mut().chain([master]).collect()
            }
            Self::Redis(Topology::Cluster(servers)) | Self::Redlock(servers) => {
                servers.iter_mut().collect()
            }
        }
    }
}

fn server(scheme: &str, url: &str) -> Result<ConnectionInfo, String> {
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
    // Disconnects are noticed at once with RESP3, so it is used unless the URL says otherwise.
    let chosen = url.split_once('?').is_some_and(|(_, options)| options.contains("protocol="));
    let settings = if chosen { settings } else { settings.set_protocol(ProtocolVersion::RESP3) };
    Ok(info.set_redis_settings(settings))
}

fn sentinel(hosts: &Hosts<'_>) -> Result<SentinelAddress, String> {
    let (service, database) = match hosts.path.split_once('/') {
        Some((service, database)) => (service, database),
        None => (hosts.path, ""),
    };
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
    Ok(SentinelAddress {
        sentinels: sentinels.collect::<Result<_, _>>()?,
        service: service.to_owned(),
        master: hosts.server(hosts.login, hosts.names[0], database)?,
    })
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
    fn of(scheme: &'a str, rest: &'a str) -> Result<Self, String> {
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

    fn all(&self) -> Result<Vec<ConnectionInfo>, String> {
        self.names.iter().map(|host| self.server(self.login, host, self.path)).collect()
    }

    fn server(&self, login: &str, host: &str, database: &str) -> Result<ConnectionInfo, String> {
        let encrypted = matches!(self.scheme, "redlocks") || self.scheme.starts_with("rediss");
        let scheme = if encrypted { "rediss" } else { "redis" };
        let ours = |option: &&str| !option.is_empty() && !option.starts_with("sentinel_");
        let options: Vec<_> = self.options.split('&').filter(ours).collect();
        let options = options.join("&");
        server(self.scheme, &format!("{scheme}://{login}{host}/{database}?{options}"))
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

/// Host and port, as URLs have them.
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

/// The addresses of several servers, in the same way.
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

/// The same settings for another server.
pub(super) fn at(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
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
    fn lists_of_hosts_share_login_and_options() {
        let url = "redis-cluster://me:p%40ss@a:1,b,[::1]:3?protocol=resp2";
        let Ok(Address::Redis(Topology::Cluster(nodes))) = Address::parse(url) else {
            panic!("{url}")
        };
        assert_eq!(shown(&nodes), ["redis://a:1/0", "redis://b:6379/0", "redis://[::1]:3/0"]);
        for node in &nodes {
            let settings = node.redis_settings();
            assert_eq!((settings.username(), settings.password()), (Some("me"), Some("p@ss")));
            assert!(!settings.protocol().supports_resp3());
        }
        let Ok(Address::Redlock(nodes)) = Address::parse("redlock://a,b,c/3") else { panic!() };
        assert_eq!(shown(&nodes), ["redis://a:6379/3", "redis://b:6379/3", "redis://c:6379/3"]);
    }

    #[test]
    fn sentinels_have_a_login_and_a_port_of_their_own() {
        let url = "redis-sentinel://me:secret@a,b:1/svc/2?sentinel_username=s&sentinel_password=t";
        let Ok(Address::Redis(Topology::Sentinel(address))) = Address::parse(url) else {
            panic!("{url}")
        };
        assert_eq!(shown(&address.sentinels), ["redis://a:26379/0", "redis://b:1/0"]);
        let login = address.sentinels[0].redis_settings();
        assert_eq!((login.username(), login.password()), (Some("s"), Some("t")));
        assert_eq!(address.service, "svc");
        assert_eq!(address.master.redis_settings().db(), 2);
        assert_eq!(address.master.redis_settings().password(), Some("secret"));
        let Ok(Address::Redis(Topology::Sentinel(address))) =
            Address::parse("redis-sentinel://x:pw@[::1]/s")
        else {
            panic!()
        };
        assert_eq!(shown(&address.sentinels), ["redis://[::1]:26379/0"]);
        assert_eq!(address.sentinels[0].redis_settings().password(), None);
    }

    #[test]
    fn bad_urls_are_explained_without_the_password() {
        for (url, problem) in [
            ("redis-sentinel://a,b,c", "names no service"),
            ("redis-sentinel://:hunter2@a,b/", "names no service"),
            ("redis-cluster://:hunter2@a,,b", "has an empty host"),
            ("redis-cluster://", "has an empty host"),
            ("redlock://:hunter2@a:1,b:hunter2,c", "cannot be used"),
            ("redis-clusters://a", "is no kind of URL known here"),
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(error.contains(problem), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn names_of_several_servers() {
        let hosts = |url: &str| Hosts::of("redlock", url).unwrap().all().unwrap();
        assert_eq!(names("redlock", &hosts(":pw@a:1,b")), "redlock://a:1,b:6379");
        assert_eq!(names("redis-cluster", &hosts("[::1]:1")), "redis-cluster://[::1]:1");
    }
}
