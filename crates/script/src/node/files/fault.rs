//! Errors of files as Node words them: `ENOENT: no such file or directory, open '/a'`.

use std::io::{Error, ErrorKind};

use crate::node::fault::Fault;

/// Code, number and words of an error of the system.
struct Said {
    code: &'static str,
    errno: i32,
    words: &'static str,
}

const fn said(code: &'static str, errno: i32, words: &'static str) -> Said {
    Said { code, errno, words }
}

fn of(error: &Error) -> Said {
    match error.kind() {
        ErrorKind::NotFound => said("ENOENT", 2, "no such file or directory"),
        ErrorKind::PermissionDenied if error.raw_os_error() == Some(1) => {
            said("EPERM", 1, "operation not permitted")
        }
        ErrorKind::PermissionDenied => said("EACCES", 13, "permission denied"),
        ErrorKind::AlreadyExists => said("EEXIST", 17, "file already exists"),
        ErrorKind::CrossesDevices => said("EXDEV", 18, "cross-device link not permitted"),
        ErrorKind::NotADirectory => said("ENOTDIR", 20, "not a directory"),
        ErrorKind::IsADirectory => said("EISDIR", 21, "illegal operation on a directory"),
        ErrorKind::InvalidInput => said("EINVAL", 22, "invalid argument"),
        ErrorKind::InvalidFilename => said("ENAMETOOLONG", 36, "name too long"),
        ErrorKind::StorageFull => said("ENOSPC", 28, "no space left on device"),
        ErrorKind::ReadOnlyFilesystem => said("EROFS", 30, "read-only file system"),
        ErrorKind::DirectoryNotEmpty => said("ENOTEMPTY", 39, "directory not empty"),
        ErrorKind::ResourceBusy => said("EBUSY", 16, "resource busy or locked"),
        _ if error.raw_os_error() == Some(40) => said("ELOOP", 40, "too many symbolic links encountered"),
        _ => said("EIO", 5, "i/o error"),
    }
}

/// What went wrong in `syscall` with `path`.
pub(super) fn system(error: &Error, syscall: &'static str, path: &str) -> Fault {
    let said = of(error);
    coded(said.code, said.errno, said.words, syscall, path)
}

/// What went wrong on the way from `path` to `dest`.
pub(super) fn both(error: &Error, syscall: &'static str, path: &str, dest: &str) -> Fault {
    let said = of(error);
    let mut fault = coded(said.code, said.errno, said.words, syscall, path).with("dest", dest);
    fault.message.push_str(&format!(" -> '{dest}'"));
    fault
}

/// An error without a path.
pub(super) fn bare(error: &Error, syscall: &'static str) -> Fault {
    let said = of(error);
    let mut fault = Fault::new(said.code, format!("{}: {}, {syscall}", said.code, said.words));
    fault.errno = Some(-said.errno);
    fault.with("syscall", syscall)
}

/// An error of ours in the same words.
pub(super) fn coded(code: &str, errno: i32, words: &str, syscall: &'static str, path: &str) -> Fault {
    let mut fault = Fault::new(code, format!("{code}: {words}, {syscall} '{path}'"));
    fault.errno = Some(-errno);
    fault.with("syscall", syscall).with("path", path)
}
