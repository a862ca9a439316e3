//! The containers that a command creates, the paths inside them, and where these are on the machine that runs them.
//!
//! What a container mounts belongs to the machine: a path below a mount point is resolved to its source. All other
//! paths belong to the container. They are known to disappear with the command only if the command creates the container,
//! shares nothing with it but mounts, and no mount is at or below the path. The content of a volume survives, too.

use crate::effects::{Holder, Touch};
use crate::options::Options;
use crate::paths;
use crate::programs::Programs;
use crate::word::{MADE, has_hole};

/// Options that let a container have more of the machine than its mounts.
const SHARING: [&str; 10] = [
    "cap-add",
    "device",
    "gpus",
    "ipc",
    "pid",
    "privileged",
    "runtime",
    "secret",
    "security-opt",
    "volumes-from",
];

/// Programs that keep containers in the same way.
const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];

/// Long options of `docker run` that take no value.
const SWITCHES: [&str; 8] =
    ["--rm", "--init", "--interactive", "--tty", "--quiet", "--read-only", "--privileged", "--publish-all"];

/// Returns the names of the container that a client of a container engine creates (Docker 27 `run`, `create`): the name
/// that it is given, if known, and [`MADE`](crate::marks::MADE) if the client prints the id. Empty for everything else.
pub fn containers_made<'a>(program: &str, args: &[&'a str], programs: &Programs) -> Vec<&'a str> {
    if !ENGINES.contains(&program) {
        return Vec::new();
    }
    let args = args.strip_prefix(&["container"]).unwrap_or(args);
    let Some((&sub @ ("run" | "create"), rest)) = args.split_first() else { return Vec::new() };
    // Both take the same options.
    let options = Options::parse(rest, programs.takes_of(program, "run").until_operand());
    let before = rest.get(..options.consumed).unwrap_or(rest);
    let prints_id = sub == "create" || options.has('d', "detach") && is_detached(before);
    let name = options.value(None, "name").filter(|name| !has_hole(name));
    name.into_iter().chain(prints_id.then_some(MADE)).collect()
}

/// Returns whether options of `docker run` let it end at once. What stands behind an option that may take a value is none.
fn is_detached(options: &[&str]) -> bool {
    let short = |word: &str| word.strip_prefix('-').is_some_and(|letters| letters.contains('d'));
    let is_meant = |word: &str| *word == *"--detach" || !word.starts_with("--") && short(word);
    let may_take_it = |word: &&str| word.starts_with("--") && !word.contains('=') && !SWITCHES.contains(word);
    let before = std::iter::once(None).chain(options.iter().map(Some));
    options.iter().zip(before).any(|(word, before)| is_meant(word) && !before.is_some_and(may_take_it))
}

/// The folders of the machine that a container sees, each with the place where it sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mounts {
    folders: Vec<(String, String)>,
    /// Places that hold what outlives the container.
    volumes: Vec<String>,
    /// Whose everything else is.
    rest: Holder,
    /// It is not known in which folder of the container the command starts.
    starts_anywhere: bool,
}

impl Mounts {
    /// Returns the mounts among the options of `docker run`; folders of the machine are relative to `cwd`.
    pub(crate) fn of(options: &Options<'_>, cwd: &str) -> Self {
        let shares = SHARING.iter().any(|name| options.long(name));
        let mut mounts = Self {
            rest: if shares { Holder::Machine } else { Holder::NewContainer },
            starts_anywhere: options.value(Some('w'), "workdir").is_none(),
            ..Self::default()
        };
        for value in options.values(Some('v'), "volume") {
            if let [source, place, ..] = value.split(':').collect::<Vec<_>>().as_slice() {
                mounts.add(source, place, cwd);
            }
        }
        for value in options.values(None, "mount") {
            let part = |names: [&str; 3]| {
                let mut parts = value.split(',').filter_map(|part| part.split_once('='));
                parts.find_map(|(name, value)| names.contains(&name).then_some(value))
            };
            let source = part(["source", "src", "source"]);
            match (source, part(["target", "destination", "dst"])) {
                (Some(source), Some(place)) => mounts.add(source, place, cwd),
                (None, Some(place)) => mounts.volumes.push(place.to_owned()),
                (_, None) => {}
            }
        }
        mounts
    }

    /// As for a container that was there before, of which nothing else is known.
    pub(crate) fn of_others(self) -> Self {
        Self { rest: Holder::Container, ..self }
    }

    /// As for a container that may be anything.
    pub(crate) fn of_the_machine(self) -> Self {
        Self { rest: Holder::Machine, ..self }
    }

    fn add(&mut self, source: &str, place: &str, cwd: &str) {
        // A name without a folder is a volume that the engine keeps.
        if source.starts_with(['/', '.', '~']) || has_hole(source) {
            self.folders.push((place.to_owned(), paths::lexical(source, cwd)));
        } else {
            self.volumes.push(place.to_owned());
        }
    }

    /// Whose a path of the container is that leads to no folder of the machine.
    fn holder_of(&self, touch: &Touch) -> Holder {
        let mut places = self.folders.iter().map(|(place, _)| place).chain(&self.volumes);
        let is_relative = !touch.path.starts_with(['/', '~']);
        if is_relative && self.starts_anywhere && places.clone().next().is_some() {
            return Holder::Machine;
        }
        let path = touch.resolved.as_str();
        let meets = |place: &String| below(path, place).is_some() || below(place, path).is_some();
        if places.any(meets) { Holder::Machine } else { self.rest }
    }

    /// Returns the folder of the machine that a path of the container leads to.
    pub(crate) fn source_of(&self, path: &str) -> Option<String> {
        let longest = self.folders.iter().filter(|(place, _)| below(path, place).is_some());
        let (place, source) = longest.max_by_key(|(place, _)| place.len())?;
        Some(paths::lexical(&format!("{source}/{}", below(path, place)?), "/"))
    }

    /// Leads a touch to where the path lies.
    pub(crate) fn lead(&self, touch: &mut Touch) {
        if let Some(path) = self.source_of(&touch.resolved) {
            touch.path.clone_from(&path);
            touch.resolved = path;
            // The disk of the machine says nothing about links in a container.
            touch.climbing = None;
        } else {
            touch.holder = self.holder_of(touch);
        }
    }
}

/// Returns what is left of a path below a folder.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Action;
    use crate::options::Takes;

    #[test]
    fn containers_are_made_under_names() {
        let programs = Programs::built_in();
        let made = |command: &str| {
            let words: Vec<&str> = command.split(' ').collect();
            let (program, args) = words.split_first().expect("a program");
            containers_made(program, args, &programs).join(" ")
        };
        for (command, names) in [
            ("docker run -d img", MADE),
            ("docker run --rm -d img", MADE),
            ("docker run -p 80:80 -itd img sh", MADE),
            ("docker container create img", MADE),
            ("podman run --name a img", "a"),
            ("docker run --cidfile -d img", ""),
            ("docker run -e -d img", ""),
            ("docker run img -d --name a", ""),
            ("docker network create a", ""),
            ("docker ps -a", ""),
            ("other run -d img", ""),
        ] {
            assert_eq!(made(command), names, "{command}");
        }
        assert_eq!(made("nerdctl run --name=a --detach img"), format!("a {MADE}"));
    }

    #[test]
    fn paths_are_followed_through_mounts() {
        let args = ["-v", "./out:/b", "--mount", "type=bind,src=/,dst=/host", "-v", "data:/var/x"];
        let options = Options::parse(&args, Takes::values("v", &["volume", "mount"]));
        let mounts = Mounts::of(&options, "/work");
        for (path, leads) in [
            ("/b/cache", "/work/out/cache"),
            ("/host", "/"),
            ("/host/etc", "/etc"),
            ("/builds", "/builds"),
            ("/var/x/1", "/var/x/1"),
        ] {
            let mut touch = Touch::new(Action::Delete, path);
            touch.resolved = path.to_owned();
            mounts.lead(&mut touch);
            assert_eq!(touch.resolved, leads, "{path}");
        }
    }

    #[test]
    fn what_a_new_container_holds_is_its_own_unless_it_shares_it() {
        let held = |args: &[&str], path: &str| {
            let mounts =
                Mounts::of(&Options::parse(args, Takes::values("vw", &["volume", "workdir"])), "/work");
            let mut touch = Touch::new(Action::Delete, path);
            touch.resolved = paths::lexical(path, "/work");
            mounts.lead(&mut touch);
            touch.holder
        };
        for (args, path, holder) in [
            (&[][..], "/etc", Holder::NewContainer),
            (&[], "x", Holder::NewContainer),
            (&["-v", "/:/host"], "/etc", Holder::NewContainer),
            (&["-v", "/:/host"], "/host/etc", Holder::Machine),
            (&["-v", "/:/host"], "/", Holder::Machine),
            (&["-v", ".:/app"], "x", Holder::Machine),
            (&["-v", "data:/etc/x"], "/etc", Holder::Machine),
            (&["-v", "data:/data"], "/data/x", Holder::Machine),
            (&["--privileged"], "/etc", Holder::Machine),
            (&["--volumes-from", "db"], "/data", Holder::Machine),
        ] {
            assert_eq!(held(args, path), holder, "{args:?} {path}");
        }
    }
}
