//! The queue of lines for stderr, written by a separate thread, so that a stopped terminal (Ctrl-S) or an unread pipe does
//! not block the daemon. Lines that do not fit are counted; the log file has them.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Lines that wait.
const MOST: usize = 1_000;
/// How long the end of the process waits for those that are not written yet, and between two looks.
const LAST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(2));

/// The way to the thread.
#[derive(Debug, Clone)]
pub(super) struct LineQueue {
    lines: SyncSender<String>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicUsize,
    left_out: AtomicUsize,
}

impl LineQueue {
    /// Starts the thread, which writes to `out`; `None` when there can be none.
    pub(super) fn start(out: impl Write + Send + 'static) -> Option<Self> {
        let (lines, taken) = sync_channel(MOST);
        let counts = Arc::new(Counts::default());
        let of_thread = counts.clone();
        let thread = std::thread::Builder::new().name("stderr".to_owned());
        let started = thread.spawn(move || write_all(&taken, &of_thread, out));
        started.is_ok().then_some(Self { lines, counts })
    }

    pub(super) fn put(&self, line: String) {
        self.counts.waiting.fetch_add(1, Ordering::AcqRel);
        if self.lines.try_send(line).is_err() {
            self.counts.waiting.fetch_sub(1, Ordering::AcqRel);
            self.counts.left_out.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Waits a moment for what is not written yet.
    pub(super) fn flush(&self) {
        let began = Instant::now();
        while self.counts.waiting.load(Ordering::Acquire) > 0 && began.elapsed() < LAST.0 {
            std::thread::sleep(LAST.1);
        }
    }
}

fn write_all(lines: &Receiver<String>, counts: &Counts, mut out: impl Write) {
    for line in lines {
        let left_out = counts.left_out.swap(0, Ordering::AcqRel);
        let gap = match left_out {
            0 => String::new(),
            count => format!("… {count} lines found no room here and are in the log file\n"),
        };
        // Nobody is left to hear that stderr is gone.
        let _ = out.write_all((gap + &line).as_bytes());
        counts.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::{Condvar, Mutex};

    /// Takes nothing until it is opened.
    #[derive(Clone, Default)]
    struct Gate(Arc<Inside>);

    #[derive(Default)]
    struct Inside {
        /// Whether it is open, and what it took.
        state: Mutex<(bool, Vec<u8>)>,
        opened: Condvar,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut state = self.0.state.lock();
            self.0
                .opened
                .wait_while(&mut state, |(is_open, _)| !*is_open);
            state.1.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_reads_nothing_holds_up_nobody_and_is_told_later_how_much_is_missing() {
        let gate = Gate::default();
        let queue = LineQueue::start(gate.clone()).expect("a thread");
        for number in 0..3 * MOST {
            queue.put(format!("{number}\n"));
        }
        gate.0.state.lock().0 = true;
        gate.0.opened.notify_all();
        while queue.counts.waiting.load(Ordering::Acquire) > 0 {
            queue.flush();
        }
        queue.put("last\n".to_owned());
        queue.flush();
        let written = String::from_utf8(gate.0.state.lock().1.clone()).expect("text");
        let lines: Vec<&str> = written.lines().collect();
        let gaps: Vec<usize> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("… ")?.split(' ').next()?.parse().ok())
            .collect();
        assert_eq!(lines.last(), Some(&"last"));
        // Every line was written or counted.
        assert_eq!(
            lines.len() - gaps.len() + gaps.iter().sum::<usize>(),
            3 * MOST + 1
        );
        assert!(gaps.iter().sum::<usize>() >= MOST, "{gaps:?}");
    }
}
