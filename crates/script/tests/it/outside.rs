//! What a script makes its host hold, beside the heap of its runtime: each has a bound that the script is told.

use backstop_script::{HostGrant, Permissions, Provided};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::common::{Script, ask};

#[tokio::test]
async fn timers_that_are_set_anew_and_cleared_are_no_more_timers() {
    let mut script = Script::new(&[(
        "main.js",
        "const one = setTimeout(() => {}, 60000);
         export const main = () => {
             for (let i = 0; i < 50000; i++) { one.refresh(); clearTimeout(setTimeout(() => {}, 60000)); }
             let set = 0;
             try { for (;;) { setTimeout(() => {}, 60000); set++; } } catch (error) { return [set, error.name]; }
         };",
    )]);
    script.limits.timers = 5;
    let loaded = script.load("main.js").await.unwrap();
    assert_eq!(ask(&loaded, "main", &Value::Null).await.unwrap(), Some(json!([4, "RangeError"])));
}

#[tokio::test]
async fn functions_that_are_kept_by_a_name_are_counted_also_when_they_are_let_go_of() {
    let mut script = Script::new(&[("main.js", "")]);
    script.limits.functions = 10;
    let boot = "const { keep, release } = import.meta.host; let kept = 0, told;
         try { for (;;) { release(keep(() => {}, 'x'.repeat(1 << 16))); kept++; } } catch (error) { told = error.message; }
         export const main = () => [kept, told];";
    let loaded = script.load_source(script.source("main.js").boot(boot)).await.unwrap();
    let answer = ask(&loaded, "main", &Value::Null).await.unwrap().unwrap();
    assert_eq!(answer[0], json!(10));
    assert!(answer[1].as_str().unwrap().contains("10 functions"), "{answer}");
}

#[tokio::test]
async fn names_that_are_resolved_are_bounded_in_number_and_length() {
    let mut script = Script::new(&[(
        "main.js",
        "import { createRequire } from 'node:module';
         const require = createRequire(import.meta.url);
         const told = (act) => { try { act(); } catch (error) { return error.message; } };
         let resolved = 0;
         const many = told(() => { for (let i = 0; i < 100; i++) { require.resolve('absent/' + i); resolved++; } });
         export default () => [resolved, many, told(() => require('./' + 'x'.repeat(1 << 20)))];",
    )]);
    script.limits.modules = 20;
    *script.bridge.modules.lock().unwrap() =
        (0..100).map(|n| (format!("absent/{n}"), Provided::Absent("not here".to_owned()))).collect();
    let loaded = script.load("main.js").await.unwrap();
    let answer = ask(&loaded, "default", &Value::Null).await.unwrap().unwrap();
    assert_eq!(answer[0], json!(20), "{answer}");
    assert!(answer[1].as_str().unwrap().contains("are remembered"), "{answer}");
    let long = answer[2].as_str().unwrap();
    assert!(long.contains("the most is 4096") && long.len() < 10_000, "{long}");
}

/// A server on loopback whose answers have this many bytes.
async fn server(bytes: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n")
                    && stream.read_buf(&mut head).await.is_ok_and(|read| read > 0)
                {}
                let start =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\nconnection: close\r\n\r\n");
                // A client that has gone wants no answer.
                let _ = stream.write_all(&[start.as_bytes(), &vec![b'x'; bytes]].concat()).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn bytes_of_answers_are_bounded_together_and_given_back_when_they_are_taken() {
    let mut script = Script::new(&[(
        "main.js",
        "const get = async (port) => { try { return (await fetch(`http://127.0.0.1:${port}/`)).status; } catch (error) { return error.code; } };
         export const together = (port) => Promise.all(new Array(20).fill(port).map(get));
         export const inTurn = async (port) => { const all = []; for (let i = 0; i < 20; i++) all.push(await get(port)); return all; };",
    )]);
    let port = server(100_000).await;
    script.permissions = Permissions {
        hosts: vec![HostGrant { host: "127.0.0.1".to_owned(), port: Some(port) }],
        ..Permissions::default()
    };
    script.limits.outside = 350_000;
    let loaded = script.load("main.js").await.unwrap();
    let all = |answer: Value| answer.as_array().unwrap().clone();
    let in_turn = all(ask(&loaded, "inTurn", &json!(port)).await.unwrap().unwrap());
    assert!(in_turn.iter().all(|one| *one == json!(200)), "{in_turn:?}");
    // How many are there at once is the network's business; none is more than it says, and none is left over.
    let together = all(ask(&loaded, "together", &json!(port)).await.unwrap().unwrap());
    assert!(together.iter().all(|one| *one == json!(200) || *one == json!("ENOBUFS")), "{together:?}");
    let again = all(ask(&loaded, "inTurn", &json!(port)).await.unwrap().unwrap());
    assert!(again.iter().all(|one| *one == json!(200)), "{again:?}");
    script.limits.outside = 150_000;
    let loaded = script.load("main.js").await.unwrap();
    let none = all(ask(&loaded, "inTurn", &json!(port)).await.unwrap().unwrap());
    assert!(none.iter().all(|one| *one == json!("ENOBUFS")), "{none:?}");
}
