//! The process of a plugin, for tests: what the binary `backstop` is when it is started as `backstop plugin-host`.
//!
//! With `try` it shuts itself in as for a plugin without a grant, and says what it can do all the same.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::{Command, ExitCode};

use backstop_plugins::apart;
use backstop_script::Permissions;

fn main() -> ExitCode {
    match apart::main() {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
        None => tried(&std::env::args().skip(1).collect::<Vec<_>>()),
    }
}

/// `try FOLDER PORT PID`: says what this process can do, word by word.
fn tried(words: &[String]) -> ExitCode {
    let [word, folder, port, pid] = words else { return ExitCode::FAILURE };
    let (Ok(port), Ok(pid)) = (port.parse::<u16>(), pid.parse()) else { return ExitCode::FAILURE };
    if word != "try" {
        return ExitCode::FAILURE;
    }
    let gaps = match apart::enclose(&Permissions::default(), folder.as_ref()) {
        Ok(gaps) => gaps,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    for gap in gaps {
        println!("gap {gap}");
    }
    let own = format!("{folder}/own");
    let sent = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.send_to(b"x", (Ipv4Addr::LOCALHOST, port)));
    let other = rustix::process::Pid::from_raw(pid);
    let done = [
        ("own", std::fs::read(&own).is_ok()),
        ("change", std::fs::write(&own, "x").is_ok()),
        ("passwd", std::fs::read("/etc/passwd").is_ok()),
        ("environment", std::fs::read(format!("/proc/{pid}/environ")).is_ok()),
        ("list", std::fs::read_dir("/").is_ok()),
        ("make", std::fs::write(format!("{folder}/made"), "x").is_ok()),
        ("start", Command::new("/bin/true").status().is_ok()),
        ("connect", TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()),
        ("send", sent.is_ok()),
        ("signal", other.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())),
    ];
    for (what, _) in done.into_iter().filter(|(_, is_done)| *is_done) {
        println!("did {what}");
    }
    // What is beyond the bound of memory ends it.
    let size = if std::env::var_os("FILL").is_some() { 1_usize << 30 } else { 1 << 20 };
    let filled = vec![1_u8; size];
    println!("filled {}", filled.iter().map(|byte| usize::from(*byte)).sum::<usize>());
    ExitCode::SUCCESS
}
