//! What libraries of services are told to delete by code on the command line.
//!
//! Which library it is says the rule; here only the name of the call counts. A call whose name begins with a verb of
//! deletion (`delete_bucket`, `terminateInstances`), and one that is such a word alone (`.delete()`), are meant; names of
//! classes that commands of an SDK have (`DeleteObjectCommand`), too. What removes an item of a list is none.

/// Beginnings of names of calls that delete, or end for good.
const VERBS: [&str; 12] = [
    "delete",
    "terminate",
    "destroy",
    "purge",
    "drop",
    "truncate",
    "flush",
    "deregister",
    "empty",
    "revoke",
    "cancel",
    "schedule_key_deletion",
];

/// Names that are all there is to a call.
const WHOLE: [&str; 6] =
    ["remove_bucket", "rm", "remove_object", "remove_objects", "removeobject", "removebucket"];

/// What follows a verb that deletes nothing of the service.
const HARMLESS: [&str; 6] = ["_marker", "_cookie", "attr", "_on_termination", "ontermination", "_markers"];

/// Whether code calls something that deletes.
pub(super) fn deletes(code: &str) -> bool {
    let lower = code.to_ascii_lowercase();
    let called = lower.match_indices(['(', '!']).any(|(at, _)| {
        let name = lower.get(..at).unwrap_or_default();
        let name = name.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        is_deletion(name)
    });
    // Calls without brackets (Ruby), and statements that a client of a database is given.
    let bare = || {
        lower.split(|c: char| c.is_whitespace() || c == ';').filter_map(|word| word.rsplit_once('.')).any(
            |(_, name)| {
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    && is_deletion(name)
                    && name.contains('_')
            },
        )
    };
    let stated = || {
        [
            "drop table",
            "drop database",
            "drop schema",
            "truncate table",
            "truncate ",
            "drop index",
            "drop view",
        ]
        .iter()
        .any(|statement| lower.contains(statement))
            || lower
                .match_indices("delete from")
                .any(|(at, _)| !lower.get(at..).is_some_and(|rest| rest.contains("where")))
    };
    called || bare() || stated()
}

fn is_deletion(name: &str) -> bool {
    let verb = VERBS.iter().find_map(|verb| name.strip_prefix(verb));
    WHOLE.contains(&name) || verb.is_some_and(|rest| !HARMLESS.contains(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_delete_are_told_by_their_names() {
        for code in [
            "c.delete_bucket(Bucket='x')",
            "new DeleteObjectCommand({Bucket: 'x'})",
            "bucket.objects.all().delete()",
            "ec2.terminate_instances instance_ids: ['i']",
            "r.flushall()",
            "db.dropDatabase()",
            "cur.execute('DROP TABLE t')",
            "cur.execute('delete from t')",
        ] {
            assert!(deletes(code), "{code}");
        }
        for code in [
            "c.list_buckets()",
            "x.deleted",
            "delattr(x, 'y')",
            "print('delete')",
            "cur.execute('delete from t where id = 1')",
            "list.remove(x)",
            "s.get_object(Bucket='x')",
        ] {
            assert!(!deletes(code), "{code}");
        }
    }
}
