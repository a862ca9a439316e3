//! Receipts of what is stopped, or given up, while it is on its way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{
    Engine, Keeping, Receipt, ReceiptSink, RedactionStream, Said, Settled, SpanRedactor, Verdict,
};
use backstop_hooks::points::AfterToolCall;
use backstop_hooks::{CallContext, HookError, async_hook_fn, hook_fn};
use tokio::sync::oneshot;

use crate::law_07_no_silent_gap::sample;
use crate::support::{block_on, context, on, options, watched};

/// A trail whose disk takes its time.
#[derive(Default)]
struct SlowDisk {
    noted: Mutex<Vec<Verdict>>,
    kept: Mutex<Vec<(Verdict, Option<oneshot::Sender<bool>>)>>,
}

impl SlowDisk {
    /// The receipts that somebody waits for are written.
    fn write(&self) -> Vec<Verdict> {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        kept.into_iter()
            .map(|(verdict, waiting)| {
                waiting.unwrap().send(true).unwrap();
                verdict
            })
            .collect()
    }
}

impl ReceiptSink for SlowDisk {
    fn record(&self, receipt: &Receipt) {
        self.noted.lock().unwrap().push(receipt.verdict);
    }

    fn keep(&self, receipt: &Receipt) -> Option<Keeping> {
        let (done, written) = oneshot::channel();
        self.kept.lock().unwrap().push((receipt.verdict, Some(done)));
        Some(Box::pin(async { written.await.unwrap_or(false) }))
    }
}

/// Stops every text that has an `x`.
#[derive(Clone, Debug, Default)]
struct NoX(usize);

impl SpanRedactor for NoX {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(self.clone())
    }
}

impl RedactionStream for NoX {
    fn push(&mut self, text: &str) -> Settled {
        self.0 += text.len();
        let block = text.contains('x').then(|| "no x here".into());
        Settled { up_to: self.0, block, ..Settled::default() }
    }

    fn finish(&mut self) -> Settled {
        Settled { up_to: self.0, ..Settled::default() }
    }
}

fn on_slow_disk() -> (Engine, Arc<SlowDisk>) {
    let disk = Arc::new(SlowDisk::default());
    let engine = Engine::builder().sink(Arc::clone(&disk) as Arc<dyn ReceiptSink>).build();
    engine.registry().on_spans(Arc::new(NoX::default()), options("no-x", 0)).unwrap();
    (engine, disk)
}

const SOON: Duration = Duration::from_millis(20);

#[test]
fn law_08_the_block_of_a_stream_is_kept_before_it_is_told() {
    let (engine, disk) = on_slow_disk();
    block_on(async {
        let mut stream = engine.redaction(&context());
        assert_eq!(stream.push(0, "fine ").text, "fine ");
        assert_eq!(stream.push(0, "but x").text, "");
        assert!(stream.is_blocked(), "that nothing more may go is known at once");
        {
            let mut told = std::pin::pin!(stream.blocked());
            tokio::time::timeout(SOON, &mut told).await.unwrap_err();
            assert_eq!(disk.write(), [Verdict::Block]);
            assert_eq!(told.await.unwrap().hook, Some("no-x".into()));
        }
        assert!(stream.blocked().await.is_some(), "it stays blocked");
        assert_eq!((stream.is_blocked(), stream.push(0, "more").text.as_str()), (true, ""));
    });
    assert!(disk.kept.lock().unwrap().is_empty() && disk.noted.lock().unwrap().is_empty(), "one receipt");
}

#[test]
fn law_08_closing_a_stream_waits_for_its_block_and_for_nothing_else() {
    let (engine, disk) = on_slow_disk();
    block_on(async {
        let mut stream = engine.redaction(&context());
        stream.push(0, "x");
        let closing = tokio::spawn(stream.close());
        tokio::time::sleep(SOON).await;
        assert!(!closing.is_finished());
        assert_eq!(disk.write(), [Verdict::Block]);
        assert_eq!(closing.await.unwrap().verdict, Verdict::Block);

        let mut stream = engine.redaction(&context());
        stream.push(0, "fine");
        assert_eq!(stream.close().await.verdict, Verdict::Pass);
    });
    assert_eq!(*disk.noted.lock().unwrap(), [Verdict::Pass]);
}

#[test]
fn law_08_a_dropped_observation_names_who_had_been_shown_the_event() {
    let (engine, kept) = watched();
    on(&engine, "quick", 9, hook_fn::<AfterToolCall, _>(|_, _| Ok(None)));
    on(&engine, "hangs", 5, async_hook_fn::<AfterToolCall, _, _>(|_, _| std::future::pending()));
    on(&engine, "fails", 1, hook_fn::<AfterToolCall, _>(|_, _| Err(HookError::failed("no"))));
    block_on(async {
        let (event, call) = (sample::<AfterToolCall>(), context());
        let watching = engine.observe::<AfterToolCall>(&event, &call);
        tokio::time::timeout(SOON, watching).await.unwrap_err();
    });
    let [receipt] = <[Receipt; 1]>::try_from(kept.take()).unwrap();
    assert_eq!(receipt.verdict, Verdict::Dropped);
    let steps: Vec<_> = receipt.steps.iter().map(|step| (step.hook.id.as_str(), step.said)).collect();
    assert_eq!(steps, [("quick", Said::Nothing), ("fails", Said::Failed)]);
}
