//! The files of a catalogue, for build scripts that compile them in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Node, parse};

/// Reads a file, or all files of a folder in the order of their names.
///
/// # Errors
///
/// What is wrong in words, with the place where there is one: a file can't be read, is no YAML or holds nothing.
pub fn read_files(path: impl AsRef<Path>) -> Result<Vec<Node>, String> {
    let path = path.as_ref();
    let unreadable = |error: std::io::Error| format!("`{}` can't be read: {error}", path.display());
    let mut files: Vec<PathBuf> = match path.is_dir() {
        true => {
            let entries = std::fs::read_dir(path).map_err(unreadable)?;
            entries.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>().map_err(unreadable)?
        }
        false => vec![path.to_owned()],
    };
    files.sort();
    let mut roots = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(unreadable)?;
        let name = Arc::from(file.to_string_lossy());
        let root = parse(&name, &text).map_err(|problem| problem.to_string())?;
        roots.push(root.ok_or_else(|| format!("`{name}` holds no entries"))?);
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_in_the_order_of_names_and_its_mistakes_have_their_place() {
        let folder = std::env::temp_dir().join(format!("backstop-yaml-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("b.yaml"), "- two\n").unwrap();
        std::fs::write(folder.join("a.yaml"), "- one\n").unwrap();
        let read = |path: &Path| {
            let roots = read_files(path)?;
            roots
                .iter()
                .map(|root| root.read::<Vec<String>>().map_err(|e| e.to_string()))
                .collect::<Result<Vec<_>, _>>()
        };
        assert_eq!(read(&folder).unwrap().concat(), ["one", "two"]);
        assert_eq!(read(&folder.join("b.yaml")).unwrap().concat(), ["two"]);
        std::fs::write(folder.join("c.yaml"), "a: 1\na: 2\n").unwrap();
        let error = read(&folder).unwrap_err();
        assert!(error.contains("c.yaml:2:1"), "{error}");
        std::fs::write(folder.join("c.yaml"), "# nothing\n").unwrap();
        assert!(read(&folder).unwrap_err().ends_with("c.yaml` holds no entries"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(read(&folder).unwrap_err().contains("can't be read"));
    }
}
