//! For tests: counts instructions. A test that is otherwise skipped calls [`measure`] on its cases, and another test runs
//! it under valgrind ([`not_linear`]).

use std::process::Command;

/// What twice the input may cost: linear work 2, quadratic 4.
const MOST: f64 = 2.5;
/// Fewer are noise of what the work does once, whatever it is given.
const FEW: u64 = 20_000;
/// The function whose calls are counted, as valgrind names it.
const COUNTED: &str = "agent_toolkit::app::linear_tests::instructions::counted_by_valgrind";
/// Characters that a case is tried on before it is counted: what is made once and kept is made then.
const FIRST: usize = 100;

/// Work on a text and on one of twice the length.
pub(crate) struct Case {
    /// What is done to what.
    pub name: String,
    /// The work.
    pub work: Box<dyn Fn(&str)>,
    /// Makes a text of about so many characters.
    pub text: Box<dyn Fn(usize) -> String>,
}

/// Does each case's work on `length` characters and on twice as many.
pub(crate) fn measure(cases: &[Case], length: usize) {
    for case in cases {
        let (single, double) = ((case.text)(length), (case.text)(2 * length));
        (case.work)(&(case.text)(FIRST));
        counted_by_valgrind(&case.work, &single);
        counted_by_valgrind(&case.work, &double);
    }
}

#[inline(never)]
fn counted_by_valgrind(work: &dyn Fn(&str), text: &str) {
    work(std::hint::black_box(text));
    std::hint::black_box(text);
}

/// Runs the skipped test `test`, which measures `cases`, below valgrind. Returns which of them are not linear; `None` where
/// valgrind is not installed.
pub(crate) fn not_linear(test: &str, cases: &[Case]) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().expect("a directory");
    let counts = dir.path().join("counts");
    let ran = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--dump-after={COUNTED}"))
        .args(["--combine-dumps=yes", "--dump-line=no"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().expect("a program"))
        .args(["--exact", test, "--ignored", "--test-threads=1"])
        .output();
    let ran = match ran {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        ran => ran.expect("valgrind runs"),
    };
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let counts = std::fs::read_to_string(counts).expect("what was counted");
    let totals: Vec<u64> = counts
        .lines()
        .filter_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
        .collect();
    // A last part is what came after the last call.
    let pairs = totals.chunks_exact(2).take(cases.len());
    assert_eq!(pairs.len(), cases.len(), "{said}");
    let judged = cases.iter().zip(pairs).filter_map(judge);
    Some(judged.collect())
}

fn judge((case, counts): (&Case, &[u64])) -> Option<String> {
    let [single, double] = *counts else {
        return None;
    };
    assert!(single > 0, "{} was not counted", case.name);
    #[expect(clippy::cast_precision_loss, reason = "a ratio of two measurements")]
    let ratio = double as f64 / single as f64;
    (ratio > MOST && double > FEW)
        .then(|| format!("{}: {single} → {double}, {ratio:.2} times", case.name))
}
