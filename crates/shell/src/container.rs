//! Paths inside a container, and where they lie on the machine that runs it.
//!
//! What a container mounts is the machine's own: a path below the place of a mount is followed to its source. All other
//! paths are the container's, of which nothing is known; they are told as they are written.

use crate::effects::Touch;
use crate::options::Options;
use crate::paths;

/// The folders of the machine that a container sees, each with the place where it sees it.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    folders: Vec<(String, String)>,
}

impl Mounts {
    /// The mounts among the options of `docker run`; folders of the machine are relative to `cwd`.
    pub(crate) fn of(options: &Options<'_>, cwd: &str) -> Self {
        let mut mounts = Self::default();
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
            if let (Some(source), Some(place)) = (source, part(["target", "destination", "dst"])) {
                mounts.add(source, place, cwd);
            }
        }
        mounts
    }

    fn add(&mut self, source: &str, place: &str, cwd: &str) {
        // A name without a folder is a volume that the engine keeps.
        if source.starts_with(['/', '.', '~']) || crate::marks::has_hole(source) {
            self.folders.push((place.to_owned(), paths::lexical(source, cwd)));
        }
    }

    /// The folder of the machine that a path of the container leads to.
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
        }
    }
}

/// What is left of a path below a folder.
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
}
