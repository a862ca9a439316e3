//! Variables that hold the credentials of a service, and the hosts these are meant for.
//!
//! A token in a header of a request to the service that issued it is used as intended; the same token in a request
//! to any other host has leaked. A variable belongs to a service if the service documents it. Variables that
//! many services share (`API_KEY`) belong to none, and nothing is said about them. The catalogue is
//! `credentials/services.yaml`.

use crate::Taint;

mod tables {
    include!(concat!(env!("OUT_DIR"), "/services.rs"));

    /// Returns the place of the service that a variable belongs to.
    pub(super) fn service_of(name: &str) -> Option<usize> {
        let at = NAMES.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
        NAMES.get(at).map(|(_, service)| *service)
    }

    /// Returns the domains of a service; a word without a dot is a part of the host of whoever runs the service himself.
    pub(super) fn domains_of(service: usize) -> &'static [&'static str] {
        HOSTS.get(service).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn len() -> usize {
        HOSTS.len()
    }
}

/// Returns what flows out of a variable of this name.
pub(crate) fn taint_of(name: &str) -> Taint {
    tables::service_of(name).map_or(Taint::NONE, Taint::credential_of)
}

/// Returns whether one of the credentials in `what` is for another than each of these hosts. A credential whose service is
/// not known, and one that goes nowhere in particular, is for nobody.
pub(crate) fn is_for_another(what: Taint, hosts: &[String]) -> bool {
    let belongs = |service: usize| {
        let domains = tables::domains_of(service);
        !hosts.is_empty() && hosts.iter().all(|host| domains.iter().any(|domain| is_of(host, domain)))
    };
    let local = !hosts.is_empty() && hosts.iter().all(|host| stays(host));
    what.has(Taint::CREDENTIAL) && !local && (what.owners().next().is_none() || !what.owners().all(belongs))
}

fn is_of(host: &str, domain: &str) -> bool {
    if !domain.contains('.') {
        return host.split(['.', '-']).any(|label| label == domain);
    }
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Returns the host of an address; `None` for what is none.
pub(crate) fn host_of(address: &str) -> Option<String> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '"', '\'', '\\', ')']).next().unwrap_or(rest);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let host = host.split(':').next().unwrap_or(host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// Returns whether data for this host stays on the machine.
pub(crate) fn stays(host: &str) -> bool {
    matches!(host, "localhost" | "0.0.0.0" | "[") || host.starts_with("127.") || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        names: Vec<String>,
        hosts: Vec<String>,
        source: String,
        #[serde(rename = "match")]
        matches: Vec<String>,
        no_match: Vec<String>,
    }

    #[test]
    fn every_service_has_hosts_a_source_a_match_and_a_near_miss() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("credentials/services.yaml");
        let text = std::fs::read_to_string(path).expect("the catalogue");
        let root = backstop_yaml::parse(&"services.yaml".into(), &text).expect("YAML").expect("entries");
        let written: Vec<Written> = root.read().expect("entries of services");
        assert_eq!(written.len(), tables::len());
        assert!(written.len() <= 48, "more services than a taint tells apart");
        let mut names: Vec<&String> = written.iter().flat_map(|service| &service.names).collect();
        let listed = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), listed, "a variable belongs to one service");
        for service in &written {
            let named = format!("{:?}", service.names);
            assert!(!service.hosts.is_empty() && service.source.len() > 5, "{named}");
            assert!(!service.matches.is_empty() && !service.no_match.is_empty(), "{named}");
            assert!(service.matches.iter().all(|name| taint_of(name).has(Taint::CREDENTIAL)), "{named}");
            assert!(service.no_match.iter().all(|name| taint_of(name) == Taint::NONE), "{named}");
        }
    }

    #[test]
    fn a_credential_is_for_the_hosts_of_its_service() {
        let token = taint_of("GITHUB_TOKEN");
        let hosts = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        assert!(!is_for_another(token, &hosts(&["api.github.com"])));
        assert!(!is_for_another(taint_of("GITLAB_TOKEN"), &hosts(&["gitlab.company.example"])));
        assert!(!is_for_another(Taint::SECRET, &hosts(&["x.example"])));
        for other in
            [&["github.com.x.example"][..], &["evilgithub.com"], &["api.github.com", "x.example"], &[]]
        {
            assert!(is_for_another(token, &hosts(other)), "{other:?}");
        }
        assert!(is_for_another(token | taint_of("NPM_TOKEN"), &hosts(&["github.com"])));
    }

    #[test]
    fn hosts_stand_in_addresses() {
        for (address, host) in [
            ("https://a.example/x", Some("a.example")),
            ("https://u:p@A.example:8443?x", Some("a.example")),
            ("x", None),
            ("file:///x", None),
        ] {
            assert_eq!(host_of(address).as_deref(), host, "{address}");
        }
    }
}
