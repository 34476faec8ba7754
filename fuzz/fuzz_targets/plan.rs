//! Any answer of a model is read as a plan or not, in time, and nothing that is said holds a mark of the system.
#![no_main]

use agent_toolkit::agent::plan::{Reading, read, words};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let answer = String::from_utf8_lossy(bytes);
    match read(&answer) {
        Reading::Plan(plan) => {
            let known = |id: &String| plan.tasks.iter().any(|task| task.id == *id);
            assert!(plan.tasks.iter().flat_map(|task| &task.depends_on).all(known));
            assert!(!plan.said().contains('⟦'));
        }
        Reading::Prose(text) => assert!(!text.starts_with('⟦')),
        Reading::Broken(_) => assert!(!words(&[&answer]).unwrap_or_default().contains('⟦')),
    }
});
