//! Files that the configuration names and that are small: keys and certificates.
//!
//! The laws: *a file is read as a whole, or not at all*: a list of authorities that was cut off would trust others than it says. *Who
//! may write it is the operator*: whoever else can would choose who is believed. And *nobody is waited for*: a pipe that nothing comes
//! out of would hold up the start, and a change of the configuration.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use backstop_config::open_owned;

/// The largest file with certificates or keys, in bytes. All authorities that a system trusts take a quarter of that.
pub(crate) const LARGEST_PEM: u64 = 1 << 20;

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// If the file can't be read, or is larger, or no file, or if others than its reader and root may write it.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(opened(path)?, most)
}

/// As [`read`], for what nobody else may know.
///
/// # Errors
/// As [`read`], and if others than its owner may read it.
#[cfg(feature = "postgres")]
pub(crate) fn read_private(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::MetadataExt as _;

    let file = opened(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        let why = "others than its owner can read it (chmod 600)";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    whole(file, most)
}

fn opened(path: &Path) -> io::Result<File> {
    open_owned(path).map_err(|untrusted| {
        let hint = untrusted.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        io::Error::new(io::ErrorKind::PermissionDenied, format!("{}{hint}", untrusted.why))
    })
}

fn whole(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn who_may_write_it_is_the_operator() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        for (mode, is_read) in [(0o600, true), (0o644, true), (0o666, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = read(&path, 4);
            assert_eq!(found.is_ok(), is_read, "{mode:o}");
            if let Err(error) = found {
                assert!(error.to_string().contains("chmod go-w"), "{error}");
            }
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn what_nobody_else_may_know_nobody_else_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        for (mode, is_read) in [(0o600, true), (0o400, true), (0o644, false), (0o640, false), (0o604, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = read_private(&path, 4);
            assert_eq!(found.is_ok(), is_read, "{mode:o}");
            if let Err(error) = found {
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        }
    }

    #[test]
    fn nothing_else_than_a_file_is_read_or_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), 4).unwrap_err().to_string(), "it is no file");
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&pipe, 4).unwrap_err().to_string(), "it is no file");
    }

    #[test]
    fn a_file_is_read_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(read(&path, 4).is_err());
        for (text, fits) in [("", true), ("four", true), ("fives", false)] {
            std::fs::write(&path, text).unwrap();
            let found = read(&path, 4);
            assert_eq!(found.is_ok(), fits, "{text}");
            match found {
                Ok(bytes) => assert_eq!(bytes, text.as_bytes()),
                Err(error) => assert_eq!(error.to_string(), "it has more than 4 bytes"),
            }
        }
    }
}
