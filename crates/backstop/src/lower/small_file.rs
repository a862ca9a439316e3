//! Files that the configuration names and that are small: keys and certificates.
//!
//! The law: *a file is read as a whole, or not at all*. A list of authorities that was cut off would trust others than it says.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The largest file with certificates or keys, in bytes. All authorities that a system trusts take a quarter of that.
pub(super) const LARGEST_PEM: u64 = 1 << 20;

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// If the file can't be read, or is larger.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
