//! What a process that shuts itself in leaves open, and what a system could not close.

use std::fmt;
use std::path::PathBuf;

/// What stays open of what a process can do. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Files and folders that can be read. One that is not there is left out.
    pub read: Vec<PathBuf>,
    /// Files and folders that can be read and changed. One that is not there is left out.
    pub write: Vec<PathBuf>,
    /// Whether there is a network.
    pub network: bool,
    /// Bytes of memory that it may write to.
    pub memory: Option<u64>,
}

/// A wall that a system can't build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Around files and programs.
    Files,
    /// Around the length of files.
    Lengths,
    /// Around connections over TCP.
    Connections,
    /// Around all else of the network.
    Datagrams,
    /// Around other processes: signals, and sockets that have no place on the disk.
    Others,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files, and starting programs",
            Self::Lengths => "the length of files, which can be cut",
            Self::Connections => "connections over TCP",
            Self::Datagrams => "the network beside TCP",
            Self::Others => "signals to other processes, and sockets that have no place on the disk",
        })
    }
}
