use super::*;

/// A process whose number says when it was started.
fn process(id: i32, parent: i32, session: i32, command: &str) -> Process {
    let arguments = command.split(' ').map(str::to_owned).collect();
    let (started, terminal) = (u64::try_from(id).unwrap(), i64::from(session == 30));
    Process { id, parent, session, terminal, service: None, group: None, started, arguments }
}

fn judged(tree: &[Process], own: i32) -> Option<Inside> {
    judged_among(tree, own, &|group| {
        let of_group = tree.iter().filter(|process| process.service.as_deref() == Some(group));
        Some(of_group.map(|process| process.id).collect())
    })
}

fn judged_among(tree: &[Process], own: i32, members: &dyn Fn(&str) -> Option<Vec<i32>>) -> Option<Inside> {
    inside(own, &|id| tree.iter().find(|process| process.id == id).cloned(), members, &|_| false)
}

fn in_service(process: Process, unit: &str) -> Process {
    Process { service: Some(format!("/system.slice/{unit}.service")), ..process }
}

fn person() -> Vec<Process> {
    vec![
        process(1, 0, 1, "/sbin/init"),
        process(20, 1, 20, "tmux new-session"),
        process(30, 20, 30, "-zsh"),
        process(90, 30, 30, "backstop approvals approve X"),
    ]
}

#[test]
fn a_person_at_a_terminal_is_outside() {
    assert_eq!(judged(&person(), 90), None);
    // In a container, whose first process is the shell; and where the rest can't be seen.
    assert_eq!(judged(&[process(1, 0, 1, "sh"), process(7, 1, 1, "backstop allow-once X")], 7), None);
    assert_eq!(judged(&[process(7, 0, 0, "backstop allow-once X")], 7), None);
    // Where the system has no list of processes there is nothing to walk; where it has one, somebody hid it.
    assert_eq!(judged(&[], 7), cfg!(target_os = "linux").then_some(Inside::Blind));
    // A service that answers for people, and what somebody's shell started on the console.
    let service = in_service(process(50, 1, 50, "bot"), "bot");
    let console = Process { terminal: 4, ..process(50, 1, 50, "sh") };
    for leader in [service, console] {
        let tree = [person(), vec![leader, process(51, 50, 50, "backstop allow-once X")]].concat();
        assert_eq!(judged(&tree, 51), None);
    }
}

#[test]
fn what_an_agent_started_is_inside() {
    for client in [
        "claude",
        "/usr/bin/claude -p hi",
        "node /usr/lib/claude",
        "node --no-warnings /opt/bin/gemini",
        "/usr/bin/node /x/bin/codex.js exec",
        "/bin/sh /home/me/bin/qwen",
        "node --enable-source-maps /x/node_modules/@anthropic-ai/claude-code/cli.js",
        "/x/cursor-agent/versions/1/node --use-system-ca /x/cursor-agent/versions/1/index.js",
        "backstop --config x run -- cat",
        "/opt/backstop agent",
        "backstop serve --port 8484",
    ] {
        let mut tree = person();
        tree.extend([
            process(40, 30, 30, client),
            process(41, 40, 41, "bash -c make"),
            process(42, 41, 41, "make answer"),
            process(99, 42, 41, "./b allow-once X"),
        ]);
        let said = judged(&tree, 99);
        assert!(matches!(said, Some(Inside::Below { id: 40, .. })), "{client}: {said:?}");
    }
    for command in ["cargo test claude", "vim claude", "backstop install claude"] {
        let mut tree = person();
        tree.extend([process(40, 30, 30, command), process(41, 40, 30, "backstop allow-once X")]);
        assert_eq!(judged(&tree, 41), None, "`{command}` is no agent");
    }
    let mut other = person();
    other.extend([process(40, 30, 30, "vim claude.md"), process(41, 40, 30, "backstop allow-once X")]);
    assert_eq!(judged(&other, 41), None, "a file of that name is no agent");
}

#[test]
fn who_asks_has_to_be_there_and_be_the_one_who_came() {
    let mut tree = person();
    tree.push(process(95, 30, 30, "backstop approvals approve X"));
    let look = |id| tree.iter().find(|process| process.id == id).cloned();
    let nothing = |_| Vec::new();
    let alone = |_: &str| Some(Vec::<i32>::new());
    let asks = |asker| asks_from_inside(asker, 90, &look, &alone, &nothing);
    assert_eq!(asks(Asker::seen(Some(95), &look)), None);
    // Whoever has its child connect and end, or comes from where its number means nothing here.
    for gone in [Some(96), Some(0), None] {
        assert_eq!(asks(Asker::seen(gone, &look)), Some(Inside::Gone), "{gone:?}");
    }
    // The number was given to somebody else since.
    assert_eq!(asks(Asker(Some((95, 94)))), Some(Inside::Gone));
    let nobody = |_| None;
    let said = asks_from_inside(Asker(None), 90, &nobody, &alone, &nothing);
    assert_eq!(said, cfg!(target_os = "linux").then_some(Inside::Blind));
    let marked = |_| b"A=1\0CLAUDECODE=1\0".to_vec();
    let said = asks_from_inside(Asker::seen(Some(95), &look), 90, &look, &alone, &marked);
    assert_eq!(said, Some(Inside::Marked("CLAUDECODE")));
}

#[test]
fn a_link_that_is_gone_counts_as_inside() {
    let orphan = |id, session| process(id, 1, session, "./b allow-once X");
    let with = |more: &[Process]| [person(), more.to_vec()].concat();
    assert_eq!(judged(&with(&[orphan(99, 30)]), 99), Some(Inside::Orphaned), "its session is above nobody");
    assert_eq!(judged(&with(&[orphan(99, 40)]), 99), Some(Inside::Orphaned), "its session is gone");
    assert_eq!(judged(&with(&[orphan(99, 99)]), 99), Some(Inside::Orphaned), "it made one for itself");
    let behind = [process(98, 1, 98, "sh -c x"), process(99, 98, 98, "./b allow-once X")];
    assert_eq!(judged(&with(&behind), 99), Some(Inside::Orphaned), "nobody sits at its session");
    // On a desktop the user's own service manager takes orphans in.
    let manager = process(15, 1, 15, "/usr/lib/systemd/systemd --user");
    let taken = process(99, 15, 99, "./b allow-once X");
    assert_eq!(judged(&with(&[manager, taken]), 99), Some(Inside::Orphaned), "it was taken in");
    let gone = process(99, 55, 30, "./b allow-once X");
    assert_eq!(judged(&with(std::slice::from_ref(&gone)), 99), Some(Inside::Orphaned), "its parent is gone");
    let reused = Process { started: 200, ..process(55, 30, 30, "sh") };
    assert_eq!(
        judged(&with(&[gone, reused]), 99),
        Some(Inside::Orphaned),
        "its parent's number is another's"
    );
}

#[test]
fn what_a_guarded_service_leaves_behind_is_inside_although_a_service_has_no_terminal() {
    let tree = |unit: &str, first: &str, later: &str| {
        let all = [
            in_service(process(50, 1, 50, first), unit),
            in_service(process(60, 1, 60, "sh -c x"), unit),
            in_service(process(61, 60, 60, "backstop allow-once X"), unit),
            in_service(process(70, 50, 50, later), unit),
        ];
        [vec![process(1, 0, 1, "/sbin/init")], all.to_vec()].concat()
    };
    for guarded in ["backstop serve --port 8484", "claude -p hi"] {
        let said = judged(&tree("proxy", guarded, "sh"), 61);
        assert!(matches!(said, Some(Inside::Beside { id: 50, .. })), "{guarded}: {said:?}");
    }
    // A service whose own process has started an agent answers for people as before.
    let of_people = tree("bot", "bot", "claude -p hi");
    assert_eq!(judged(&of_people, 61), None);
    assert_eq!(judged_among(&of_people, 61, &|_| None), Some(Inside::Unseen));
    // A person who sits at it is one, whatever the terminal was started by.
    let mut at_terminal = tree("tmux", "tmux", "sh");
    at_terminal.extend([
        in_service(process(80, 50, 80, "claude"), "tmux"),
        in_service(Process { terminal: 3, ..process(81, 50, 81, "-zsh") }, "tmux"),
        in_service(process(82, 81, 81, "backstop allow-once X"), "tmux"),
    ]);
    assert_eq!(judged(&at_terminal, 82), None);
}

#[test]
fn no_number_of_sessions_leads_out_of_a_guarded_service() {
    let tree = |first: &str| {
        let all = [
            in_service(process(50, 1, 50, first), "proxy"),
            in_service(process(60, 1, 60, "sh -c x"), "proxy"),
            in_service(process(61, 60, 61, "sh -c y"), "proxy"),
            in_service(process(62, 61, 62, "backstop allow-once X"), "proxy"),
            // What was orphaned need not lead a session.
            in_service(process(70, 1, 50, "sh -c x"), "proxy"),
            in_service(process(71, 70, 71, "backstop allow-once X"), "proxy"),
            // It can give itself a terminal.
            in_service(process(80, 1, 80, "script -c x"), "proxy"),
            in_service(Process { terminal: 3, ..process(81, 80, 81, "sh -c x") }, "proxy"),
            in_service(process(82, 81, 81, "backstop allow-once X"), "proxy"),
        ];
        [vec![process(1, 0, 1, "/sbin/init")], all.to_vec()].concat()
    };
    for own in [62, 71, 82] {
        let said = judged(&tree("backstop serve"), own);
        assert!(matches!(said, Some(Inside::Beside { id: 50, .. })), "{own}: {said:?}");
        assert_eq!(judged(&tree("bot"), own), None, "{own}");
    }
}

#[test]
fn a_person_at_a_terminal_is_not_taken_for_an_agent_that_is_in_the_same_service() {
    // A server of terminals, in one of which an agent was started before a multiplexer.
    let sshd = vec![
        process(1, 0, 1, "/sbin/init"),
        in_service(process(50, 1, 50, "sshd"), "sshd"),
        in_service(Process { terminal: 3, ..process(60, 50, 60, "-zsh") }, "sshd"),
        in_service(Process { terminal: 3, ..process(61, 60, 60, "claude") }, "sshd"),
        in_service(process(70, 1, 70, "tmux"), "sshd"),
        in_service(Process { terminal: 4, ..process(71, 70, 71, "-zsh") }, "sshd"),
        in_service(Process { terminal: 4, ..process(72, 71, 71, "backstop allow-once X") }, "sshd"),
        // By a command, without a terminal.
        in_service(process(80, 50, 80, "backstop allow-once X"), "sshd"),
    ];
    assert_eq!(judged(&sshd, 72), None);
    assert_eq!(judged(&sshd, 80), None);
    // Whatever can't be seen of the service.
    for unseen in [None, Some(Vec::new())] {
        assert_eq!(judged_among(&sshd, 72, &|_| unseen.clone()), None);
        assert_eq!(judged_among(&sshd, 80, &|_| unseen.clone()), Some(Inside::Unseen));
    }
    // The first shell of a container.
    let shell = Process { terminal: 3, ..in_service(process(1, 0, 1, "sh"), "box") };
    let own = Process { terminal: 3, ..in_service(process(7, 1, 1, "backstop allow-once X"), "box") };
    assert_eq!(judged_among(&[shell, own], 7, &|_| None), None);
}

#[test]
fn a_group_in_which_its_own_process_is_not_says_nothing() {
    let tree = [
        process(1, 0, 1, "/sbin/init"),
        in_service(process(50, 1, 50, "claude -p hi"), "proxy"),
        in_service(process(60, 1, 60, "backstop allow-once X"), "proxy"),
    ];
    for members in [Some(Vec::new()), Some(vec![1]), None] {
        assert_eq!(judged_among(&tree, 60, &|_| members.clone()), Some(Inside::Unseen), "{members:?}");
    }
}

#[test]
fn what_is_in_the_group_of_a_run_is_inside_wherever_it_went() {
    let in_group = |process: Process| Process { group: Some("backstop-run-7-x".to_owned()), ..process };
    let own = process(95, 30, 30, "backstop allow-once X");
    let said = Some(Inside::Grouped { group: "backstop-run-7-x".to_owned(), id: 95 });
    assert_eq!(judged(&[person(), vec![in_group(own)]].concat(), 95), said);
    // It moved itself out.
    let above = in_group(process(40, 30, 40, "sh -c x"));
    let own = process(41, 40, 41, "backstop allow-once X");
    assert!(matches!(
        judged(&[person(), vec![above, own]].concat(), 41),
        Some(Inside::Grouped { id: 40, .. })
    ));
    for (name, is) in
        [("backstop-run-7-x", true), ("backstop-run-7.service", false), ("backstop.service", false)]
    {
        assert_eq!(is_group(name), is, "{name}");
    }
}

#[test]
fn the_group_of_a_service_manager_is_found_among_those_of_others() {
    let both = "12:rdma:/\n3:cpu,cpuacct:/x.service\n1:name=systemd:/a.service\n0::/b.service\n";
    assert_eq!(group_of_manager(both), Some("/a.service"));
    assert_eq!(group_of_manager("0::/system.slice/a:b.service\n"), Some("/system.slice/a:b.service"));
    assert_eq!(group_of_manager("12:rdma:/\n"), None);
    assert_eq!(group_of_manager(""), None);
}

#[cfg(target_os = "linux")]
#[test]
fn of_a_group_that_is_not_there_nothing_is_seen() {
    for unit in ["of-this-name", "backstop-of-this-name"] {
        assert_eq!(members(&format!("/no.slice/{unit}.service")), None);
    }
}

#[test]
fn whoever_hides_behind_many_processes_is_inside() {
    let chain = |length: i32| -> Vec<Process> {
        let first = process(100, 30, 30, "claude");
        let row = (101..100 + length).map(|id| process(id, id - 1, 30, "sh -c x"));
        [person(), vec![first], row.collect()].concat()
    };
    assert!(matches!(judged(&chain(20), 119), Some(Inside::Below { .. })));
    assert_eq!(judged(&chain(200), 299), Some(Inside::Deep));
}

#[test]
fn what_an_agent_leaves_in_the_environment_counts() {
    for mark in MARKS {
        assert_eq!(inside(90, &|_| None, &|_| None, &|name| name == mark), Some(Inside::Marked(mark)));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_system_says_who_started_this() {
    let own = look(i32::try_from(std::process::id()).unwrap()).unwrap();
    assert_eq!(own.parent, i32::try_from(std::os::unix::process::parent_id()).unwrap());
    assert!(own.started > 0 && !own.arguments.is_empty());
    assert!(look(own.parent).unwrap().started <= own.started);
}
