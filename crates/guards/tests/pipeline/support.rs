//! An engine to judge with, and a loopback endpoint that answers as it is told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backstop_engine::{Engine, OperatorSettings, Reviewed, Snapshot};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Params, ToolName};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) fn snapshot() -> Snapshot {
    Snapshot::empty(OperatorSettings::default())
}

pub(crate) fn engine(snapshot: Snapshot) -> Engine {
    Engine::builder().snapshot(snapshot).build()
}

pub(crate) fn call(tool: &str, params: Value) -> ToolCallEvent {
    ToolCallEvent::new(ToolName::new(tool), Params::from_value(params).expect("an object"))
        .tool_call_id(backstop_hooks::ToolCallId::from("call-1"))
}

pub(crate) fn context() -> CallContext {
    CallContext {
        session_id: Some("session-1".into()),
        workspace_dir: Some("/work/project".into()),
        ..CallContext::default()
    }
}

pub(crate) async fn review(engine: &Engine, tool: &str, params: Value) -> Reviewed {
    engine.review_tool_call(call(tool, params), &context(), false).await
}

pub(crate) fn why(reviewed: &Reviewed) -> String {
    reviewed.blocked.as_ref().and_then(|blocked| blocked.reason.clone()).unwrap_or_default().to_string()
}

/// An endpoint that answers every request with the same bytes, and remembers what it was sent.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    /// `answer` is the whole response; empty means silence.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::deciding(move |_| answer.clone()).await
    }

    /// As [`Self::answering`], and hangs up then.
    pub(crate) async fn hanging_up(answer: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = [0; 4096];
                // The whole of a small request is there with the first read.
                let _ = socket.read(&mut request).await;
                let _ = socket.write_all(&answer).await;
                let _ = socket.shutdown().await;
            }
        });
        Self { url, connections: Arc::default(), requests: Arc::default() }
    }

    /// `decide` makes the whole response to a request's body.
    pub(crate) async fn deciding(decide: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let endpoint = Self { url, connections: Arc::default(), requests: Arc::default() };
        let (connections, requests) = (Arc::clone(&endpoint.connections), Arc::clone(&endpoint.requests));
        let decide: Decide = Arc::new(decide);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(socket, Arc::clone(&decide), Arc::clone(&requests)));
            }
        });
        endpoint
    }

    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        let requests = self.requests.lock().expect("nobody panics here");
        requests
            .iter()
            .map(|request| {
                let (head, body) = request.split_once("\r\n\r\n").expect("a head and a body");
                (head.to_lowercase(), serde_json::from_str(body).expect("a json body"))
            })
            .collect()
    }
}

type Decide = Arc<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

async fn serve(mut socket: TcpStream, decide: Decide, requests: Arc<Mutex<Vec<String>>>) {
    let mut buffer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let Ok(read) = socket.read(&mut chunk).await else { return };
        if read == 0 {
            return;
        }
        buffer.extend_from_slice(&chunk[..read]);
        while let Some(end) = whole_request(&buffer) {
            let request: Vec<u8> = buffer.drain(..end).collect();
            let request = String::from_utf8_lossy(&request).into_owned();
            let answer = decide(request.split_once("\r\n\r\n").map_or("", |(_, body)| body));
            requests.lock().expect("nobody panics here").push(request);
            if !answer.is_empty() && socket.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

fn whole_request(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes);
    let (head, _) = text.split_once("\r\n\r\n")?;
    let length: usize = head
        .lines()
        .find_map(|line| {
            line.to_lowercase().strip_prefix("content-length:").map(str::trim).map(str::to_owned)
        })?
        .parse()
        .ok()?;
    let end = head.len() + 4 + length;
    (bytes.len() >= end).then_some(end)
}

pub(crate) fn http(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
