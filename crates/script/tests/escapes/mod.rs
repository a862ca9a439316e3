//! Ways out: what a hostile script with no grant, or with a small one, tries; and that each is refused, with the
//! grant that is missing in words. They are tried on a script by itself, and on plugins where they really run, inside and apart.

mod files;
mod network;
mod objects;
mod programs;

use backstop_script::{FileAccess, FileGrant, Permissions};

use serde_json::Value;

use crate::common::{Script, ask};

/// What `body` comes to in a script with `permissions`, and the grants that were missing on the way.
async fn tried(permissions: Permissions, body: &str, given: &Value) -> (Value, Vec<String>) {
    const HELPERS: &str = "
        export const refused = async (act) => {
            try { return { got: String(await act()) } } catch (error) {
                return { code: error?.code ?? error?.name, message: String(error?.message), permission: error?.permission };
            }
        };";
    let main = format!(
        "import {{ refused }} from './helpers.js'; import * as fs from 'node:fs';
         export async function main(given) {{ {body} }}"
    );
    let mut script = Script::new(&[("main.js", &main), ("helpers.js", HELPERS)]);
    script.permissions = permissions;
    let loaded = script.load("main.js").await.unwrap();
    let answer = ask(&loaded, "main", given).await.unwrap().unwrap_or(Value::Null);
    let denied = script.bridge.denied.lock().unwrap().clone();
    (answer, denied)
}

fn folder(root: &std::path::Path, access: FileAccess) -> Permissions {
    Permissions { files: vec![FileGrant { root: root.to_owned(), access }], ..Permissions::default() }
}

/// The code of each refusal in a list; what was not refused is in the list as it is.
fn codes(answer: &Value) -> Vec<String> {
    let list = answer.as_array().unwrap();
    list.iter().map(|one| one["code"].as_str().map_or_else(|| one.to_string(), str::to_owned)).collect()
}
