//! A control group (cgroups(7), version 2) for a tree of processes, where this user may make one.
//!
//! It marks what belongs to the tree, and ends all of it at once. It is a label and no wall: a process of the same user may move
//! itself out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often it is tried to take a group away whose processes were ended, and what the system is given to take these away meanwhile.
const ROUNDS: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// A group of processes, which is ended and gone when this is dropped.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// Makes one below the group of this process.
    ///
    /// # Errors
    ///
    /// Where the system has none of that version, or this user may make none: without a delegation, as in most containers.
    pub fn create(name: &str) -> io::Result<Self> {
        let mounted = mounted_at(&fs::read_to_string("/proc/self/mountinfo")?);
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = own_group(&groups);
        let (Some(mounted), Some(own)) = (mounted, own) else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "there are no control groups of version 2",
            ));
        };
        let group = Path::new(&mounted).join(own.trim_start_matches('/')).join(name);
        fs::create_dir(&group)?;
        let group = Self(group);
        // What can't end its members is of no use.
        if group.0.join("cgroup.procs").exists() && group.0.join("cgroup.kill").exists() {
            Ok(group)
        } else {
            Err(io::Error::new(io::ErrorKind::Unsupported, "control groups can't be ended as a whole here"))
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Ends every process in it.
    pub fn end(&self) {
        // One that has none has nothing to end.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..ROUNDS {
            self.end();
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
                _ => return,
            }
        }
        // What the system can't end stays behind, in a group whose name is not used again.
    }
}

/// Where groups of version 2 are mounted, by the lines of `mountinfo`(5).
fn mounted_at(table: &str) -> Option<String> {
    let line = table.lines().find(|line| {
        line.split_once(" - ").is_some_and(|(_, kind)| kind.split(' ').next() == Some("cgroup2"))
    })?;
    line.split(' ').nth(4).map(str::to_owned)
}

/// The group of version 2 of a process, by its `/proc/PID/cgroup`.
fn own_group(list: &str) -> Option<&str> {
    list.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_version_2_is_found_beside_those_of_version_1() {
        let table = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     42 25 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted_at(table).as_deref(), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mounted_at("30 25 0:26 / /x rw - cgroup cgroup rw"), None);
        assert_eq!(own_group("3:cpu:/a\n0::/user.slice/b\n"), Some("/user.slice/b"));
        assert_eq!(own_group("3:cpu:/a\n"), None);
    }
}
