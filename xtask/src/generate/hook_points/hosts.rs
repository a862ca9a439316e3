//! Who fires a point, and what becomes of the answers there.

use backstop_hooks::{Honour, HostProfile, PointId};

const NOBODY: &str = "no host yet";

/// The hosts that fire the point, in a cell.
pub(crate) fn fired_by(point: PointId, hosts: &[HostProfile]) -> String {
    let names: Vec<String> =
        hosts.iter().filter(|host| host.does_fire(point)).map(|host| format!("`{}`", host.name())).collect();
    if names.is_empty() { NOBODY.to_owned() } else { names.join(" ") }
}

/// The paragraph about hosts on the page of a point.
pub(crate) fn of_point(point: PointId, hosts: &[HostProfile]) -> String {
    let firing: Vec<&HostProfile> = hosts.iter().filter(|host| host.does_fire(point)).collect();
    if firing.is_empty() {
        return format!(
            "\n> Fired by {NOBODY}. Registering a hook here is an error, except in a program that embeds the engine.\n"
        );
    }
    let titles: Vec<&str> = firing.iter().map(|host| host.title()).collect();
    let mut text = format!("\nFired by: {}.\n", titles.join(", "));
    let short: Vec<String> = firing
        .iter()
        .flat_map(|host| {
            host.exceptions()
                .filter(move |(at, ..)| *at == point)
                .map(move |(_, field, honour)| (host, field, honour))
        })
        .filter_map(|(host, field, honour)| {
            let (how, why) = told(honour)?;
            Some(format!("| {} | `{field}` | {how} | {why} |\n", host.title()))
        })
        .collect();
    if !short.is_empty() {
        text.push_str("\n| host | field | what comes of it | how |\n| --- | --- | --- | --- |\n");
        text.extend(short);
    }
    text
}

fn told(honour: Honour) -> Option<(&'static str, &'static str)> {
    match honour {
        Honour::Obeyed => None,
        Honour::Stricter(why) => Some(("something stricter", why)),
        Honour::Ignored(why) => Some(("nothing", why)),
    }
}

/// The hosts one by one.
pub(crate) fn section(hosts: &[HostProfile]) -> String {
    let mut text = "## Hosts\n\n| host | fires |\n| --- | --- |\n".to_owned();
    for host in hosts {
        let points: Vec<String> = host.points().map(|point| format!("`{point}`")).collect();
        text.push_str(&format!("| {} (`{}`) | {} |\n", host.title(), host.name(), points.join(", ")));
    }
    text.push_str(
        "\nThe proxy is shown as it is by default; `gateway.hooks` can take points from it (`tool_calls: off`) and the \\\n\
         effect of answers (`text: pass`).\n\n",
    );
    text
}
