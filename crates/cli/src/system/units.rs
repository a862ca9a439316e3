//! What a service manager is told.

use std::path::PathBuf;

use backstop::clients::install::Machine;

use super::{DATA, PROGRAM, USER, places};

/// The operator's file, where there is none yet.
pub(super) const CONFIGURATION_TEXT: &str = "# What holds for every user of this machine. What users and repositories say can only tighten it.\n# `backstop config check` checks it, and docs/configuration.md says what can stand here.\n{}\n";

/// The files of the service manager of such a machine.
pub(super) fn units(machine: Machine) -> Vec<(PathBuf, String)> {
    match machine {
        Machine::MacOs => vec![("/Library/LaunchDaemons/backstop.plist".into(), launchd())],
        _ => vec![
            ("/etc/systemd/system/backstop.socket".into(), socket()),
            ("/etc/systemd/system/backstop.service".into(), service()),
        ],
    }
}

fn socket() -> String {
    let place = places::socket(Machine::Linux);
    format!(
        "[Unit]\nDescription=Where hooks of coding agents ask Backstop\n\n[Socket]\nListenStream={place}\nSocketMode=0666\nDirectoryMode=0755\n\n[Install]\nWantedBy=sockets.target\n"
    )
}

/// The socket is the standard input of the service, which so never runs as root.
fn service() -> String {
    format!(
        "[Unit]\nDescription=Backstop judges what coding agents are about to do\nRequires=backstop.socket\nAfter=backstop.socket\n\n\
         [Service]\nExecStart={PROGRAM} daemon\nUser={USER}\nGroup={USER}\nStandardInput=socket\nStandardOutput=journal\nStandardError=journal\n\
         Restart=on-failure\nStateDirectory=backstop\nStateDirectoryMode=0700\nLimitCORE=0\nNoNewPrivileges=yes\nProtectSystem=strict\n\
         ProtectHome=yes\nPrivateTmp=yes\nPrivateDevices=yes\nProtectKernelTunables=yes\nProtectControlGroups=yes\n\
         RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\nCapabilityBoundingSet=\n"
    )
}

/// Root starts it there, and it becomes its user by itself.
fn launchd() -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n<dict>\n  <key>Label</key><string>backstop</string>\n  <key>ProgramArguments</key>\n  <array>\n    <string>{PROGRAM}</string>\n    <string>daemon</string>\n\
             <string>--socket</string>\n    <string>{}</string>\n    <string>--data</string>\n    <string>{DATA}</string>\n  </array>\n\
           <key>RunAtLoad</key><true/>\n  <key>KeepAlive</key><true/>\n</dict>\n</plist>\n",
        places::socket(Machine::MacOs)
    )
}
