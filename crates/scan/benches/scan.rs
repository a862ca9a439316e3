//! What scanning costs: clean text per byte, a short message, the tables, text made to be slow.

use std::sync::Arc;

use backstop_scan::{Policy, Redactor, Scanner};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// Prose and source code without anything to find.
fn clean(len: usize) -> String {
    let paragraph = "The scheduler keeps one queue for each worker and steals from the longest when its own is empty.\n\
        fn drain(queue: &mut Queue<Task>) -> Option<Task> {\n    while let Some(task) = queue.pop_front() {\n        \
        if task.is_ready() { return Some(task); }\n        queue.park(task);\n    }\n    None\n}\n\
        A task that waits is parked, and woken by whoever finishes what it waits for; nobody polls.\n\
        let limit = settings.limit.unwrap_or(32);\n";
    paragraph.chars().cycle().take(len).collect()
}

#[divan::bench]
fn clean_text(bencher: Bencher<'_, '_>) {
    let scanner = Scanner::new();
    let text = clean(1 << 20);
    bencher.counter(BytesCount::of_str(&text)).bench(|| scanner.detect(black_box(&text)));
}

#[divan::bench]
fn message_of_200_bytes(bencher: Bencher<'_, '_>) {
    let scanner = Scanner::new();
    let text = clean(200);
    bencher.bench(|| scanner.detect(black_box(&text)));
}

#[divan::bench]
fn build() -> Scanner {
    Scanner::new()
}

#[divan::bench(args = [1 << 14, 1 << 17, 1 << 20])]
fn adversarial(bencher: Bencher<'_, '_>, len: usize) {
    let scanner = Scanner::new();
    let hostile =
        ["key=1 ", "1 1 ", "-----BEGIN RSA PRIVATE KEY-----\n", "a.1@", "://x:y", "eyJ0.", "password='\""];
    let texts: Vec<String> =
        hostile.iter().map(|piece| piece.repeat(len / piece.len() / hostile.len())).collect();
    bencher
        .counter(BytesCount::new(len))
        .bench(|| texts.iter().map(|text| scanner.detect(black_box(text)).len()).sum::<usize>());
}

/// Text in which much is found, or much looks as if it stood in the place of something.
#[divan::bench(args = [1 << 14, 1 << 17, 1 << 20])]
fn adversarial_redaction(bencher: Bencher<'_, '_>, len: usize) {
    let redactor = Redactor::new(Arc::new(Scanner::new()), Policy::default());
    let hostile = [" password=", "[redacted:", "a@b.example ", "[password#", " password=x1Zq8]"];
    let texts: Vec<String> =
        hostile.iter().map(|piece| piece.repeat(len / piece.len() / hostile.len())).collect();
    bencher
        .counter(BytesCount::new(len))
        .bench(|| texts.iter().map(|text| redactor.apply(black_box(text)).text.len()).sum::<usize>());
}

#[divan::bench]
fn stream_in_pieces_of_16(bencher: Bencher<'_, '_>) {
    let redactor = Redactor::new(Arc::new(Scanner::new()), Policy::default());
    let text = clean(1 << 16);
    bencher.counter(BytesCount::of_str(&text)).bench(|| {
        let mut stream = redactor.stream();
        let pieces = text.as_bytes().chunks(16);
        pieces.map(|piece| stream.push(black_box(piece)).len()).sum::<usize>() + stream.finish().len()
    });
}
