//! What code on the command line makes the libraries of services delete.
//!
//! The rule names the library; only the name of the call counts here. A match is a call whose name begins with a verb of
//! deletion (`delete_bucket`, `terminateInstances`), a call that is such a verb alone (`.delete()`), and the class name
//! of an SDK command (`DeleteObjectCommand`). Removing an item from a list does not match.

use super::remote;

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

/// Beginnings of names of calls by which a client of a service ends, takes away or releases something.
const SERVICE_VERBS: [&str; 24] = [
    "archive",
    "cancel",
    "deactivate",
    "decommission",
    "delete",
    "deprovision",
    "deregister",
    "destroy",
    "detach",
    "disable",
    "drop",
    "erase",
    "expire",
    "obliterate",
    "payout",
    "purge",
    "refund",
    "remove",
    "revoke",
    "rotate",
    "suspend",
    "terminate",
    "unpublish",
    "wipe",
];

/// What is paid, or paid back, by creating it.
const PAYMENTS: [&str; 8] = [
    "refund",
    "payout",
    "transfer",
    "charge",
    "credit_note",
    "creditnote",
    "paymentintent",
    "payment_intent",
];

/// Code in which neighbouring literals are one, as they are when it runs: `'a' + 'b'`, `"a" . "b"`, `"a" "b"`.
fn joined(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(['\'', '"']) {
        let (head, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(head);
        let quote = if tail.starts_with('"') { '"' } else { '\'' };
        let behind = tail.strip_prefix(quote).unwrap_or_default();
        let between =
            behind.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '+' | '.' | '&' | '|'));
        match between.strip_prefix(quote) {
            Some(next) if between.len() < behind.len() => rest = next,
            _ => {
                out.push(quote);
                rest = behind;
            }
        }
    }
    out + rest
}

/// Returns whether code calls something that deletes.
pub(super) fn deletes(code: &str) -> bool {
    let lower = joined(&code.to_ascii_lowercase());
    let called = lower.match_indices(['(', '!']).any(|(at, _)| {
        // A member may be named in brackets, or looked up: `db["drop"]()`, `getattr(db, "drop")()`.
        let name = lower.get(..at).unwrap_or_default();
        let looked_up = ["\")", "')"].iter().find_map(|end| name.strip_suffix(end));
        let name = looked_up.unwrap_or_else(|| name.trim_end_matches([']', '"', '\'']));
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

/// Returns whether code that imports the library of a service tells it to end, pay back, cancel or release something.
pub(super) fn ends_at_service(code: &str) -> bool {
    let lower = code.to_ascii_lowercase();
    imports(&lower).any(|module| is_of_a_service(&module))
        && (deletes(code) || calls(&lower).any(ends_or_pays))
}

/// Returns what is called, each with what it is called on: `stripe.refund.create`.
fn calls(lower: &str) -> impl Iterator<Item = &str> {
    lower.match_indices('(').map(|(at, _)| {
        let before = lower.get(..at).unwrap_or_default();
        before
            .rsplit(|c: char| !(c.is_ascii_alphanumeric() || "_.:>-".contains(c)))
            .next()
            .unwrap_or_default()
    })
}

fn ends_or_pays(call: &str) -> bool {
    let mut parts = call.rsplit(['.', ':', '>', '-']).filter(|part| !part.is_empty());
    let name = parts.next().unwrap_or_default().trim_start_matches('_');
    let on = parts.next().unwrap_or_default();
    let starts = |words: &[&str]| {
        words.iter().any(|word| {
            name.strip_prefix(*word)
                .is_some_and(|rest| !remote::is_remade_thing(rest.trim_start_matches('_')))
        })
    };
    // `refunds.create`: the noun says what is done.
    let pays = matches!(name, "create" | "post" | "new")
        && PAYMENTS.iter().any(|noun| on.trim_end_matches('s') == *noun);
    pays || starts(&SERVICE_VERBS)
}

/// Returns the modules that code imports, as they are written: the words behind the word of the language that imports.
fn imports(lower: &str) -> impl Iterator<Item = String> {
    const IMPORTERS: [&str; 9] = [
        "import",
        "from",
        "require",
        "require_once",
        "use",
        "using",
        "library",
        "import_module",
        "requirenamespace",
    ];
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_@/.-\\:".contains(c);
    let words: Vec<&str> = lower.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).collect();
    let at = |nth: usize| IMPORTERS.contains(&words.get(nth).copied().unwrap_or_default());
    // `import pandas as pd` names one module.
    let is_alias = |nth: usize| nth > 0 && words.get(nth - 1) == Some(&"as");
    let behind = |nth: usize| !is_alias(nth) && (1..=4).any(|back| nth >= back && at(nth - back));
    let named = words.iter().enumerate().filter(|(nth, word)| behind(*nth) || word.starts_with('\\'));
    let named = named.map(|(_, word)| *word).chain(listed(lower));
    named.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// Returns the modules of a list, however long that is: `import a, b as c, d`.
fn listed(lower: &str) -> impl Iterator<Item = &str> {
    let lists = lower.split(['\n', ';']).filter_map(|statement| {
        let words = statement.trim_start().trim_start_matches(['"', '\'']);
        ["import ", "use ", "using "].iter().find_map(|importer| words.strip_prefix(*importer))
    });
    lists.flat_map(|list| list.split(',')).filter_map(|item| item.split_whitespace().next())
}

/// Returns whether a module is the library of a service: it is called like one, or like a client of one.
fn is_of_a_service(module: &str) -> bool {
    let module = module.strip_prefix("npm:").or_else(|| module.strip_prefix("jsr:")).unwrap_or(module);
    if module.starts_with('.') {
        return false;
    }
    let mut parts = module.split(['/', '.', '\\', ':', '@']).filter(|part| !part.is_empty());
    parts.any(|part| {
        let plain = part.replace('-', "_");
        plain.split('_').any(|piece| piece == "sdk") || remote::is_service_module(&plain)
    })
}

fn is_deletion(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    let verb = VERBS.iter().find_map(|verb| name.strip_prefix(verb));
    WHOLE.contains(&name) || verb.is_some_and(|rest| !HARMLESS.contains(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_services_are_told_by_their_imports() {
        for code in [
            "import stripe, os\nstripe.Refund.create(charge=c)",
            "const s = require('stripe')(k); s.subscriptions.cancel(id)",
            "new (require('bullmq').Queue)('q').obliterate({force: true})",
            "from twilio.rest import Client; Client(a, b).messages(sid).delete()",
            "import { ManagementClient } from 'auth0'; m.users.delete({id})",
            "require 'shopify_api'; ShopifyAPI::Product.delete(id: 1)",
            "use Acme\\Sdk\\Client; $c->tenants->terminateAll();",
            "import acme_sdk; acme_sdk.tenants.purge()",
        ] {
            assert!(ends_at_service(code), "{code}");
        }
        for code in [
            "import stripe; print(stripe.Refund.list())",
            "import json; data.remove(x)",
            "const s = require('./stripe-fake'); s.delete(1)",
            "import pandas as pd; df.drop(columns=['a'])",
            "from twilio.rest import Client; print(Client(a, b).messages.list())",
            "print('import stripe')",
        ] {
            assert!(!ends_at_service(code), "{code}");
        }
    }

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
