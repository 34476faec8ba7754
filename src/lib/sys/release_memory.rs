//! Which memory this process releases while it is idle, and which it keeps for the next turn.
#![expect(
    unsafe_code,
    reason = "madvise, malloc_trim and mallopt have no safe form; each says why it is sound"
)]

use std::fs;
use std::io;
use std::ops::Range;

/// Blocks from this size on are mapped by themselves, and given back at once.
#[cfg(target_env = "gnu")]
const MAPPED: i32 = 1 << 20;
/// Unused memory at the end of a thread's heap that stays for the next turn.
#[cfg(target_env = "gnu")]
const KEPT: i32 = 2 * MAPPED;

/// Keeps the heap of one turn for the next; [`give_back`] ends it. By itself glibc gives back what is unused above 128 KB,
/// several times a message, and each page is then zeroed and mapped again: 68 page faults a message instead of 4. To be called before the first thread starts.
pub fn keep_for_turns() {
    #[cfg(target_env = "gnu")]
    // SAFETY: both change a number of the allocator, which takes its own lock.
    unsafe {
        nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, MAPPED);
        nix::libc::mallopt(nix::libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Gives memory back that the start and past turns took: unused heap, and the pages of the program file, which are in the
/// page cache as well and are mapped again when they are used, 64 KB at a time. Blocks for some milliseconds.
///
/// # Errors
/// When /proc cannot be read.
pub fn give_back() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/smaps")?;
    for range in unchanged(&maps, &program.to_string_lossy()) {
        unmap(range);
    }
    trim_heap();
    Ok(())
}

/// Returns the mappings of `program` that nobody may write and nobody wrote: the kernel reads them again from the file.
/// What was relocated at the start is no such mapping.
fn unchanged(maps: &str, program: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in maps.lines() {
        if let Some(range) = read_only(line, program) {
            candidate = Some(range);
        } else if line.starts_with(|first: char| first.is_ascii_hexdigit()) && line.contains('-') {
            candidate = None;
        } else if let Some(anonymous) = line.strip_prefix("Anonymous:")
            && anonymous.trim() == "0 kB"
        {
            found.extend(candidate.take());
        }
    }
    found
}

/// Reads `START-END PERMISSIONS OFFSET DEVICE INODE PATH` of a mapping of `program` that may not be written.
fn read_only(line: &str, program: &str) -> Option<Range<usize>> {
    let (head, path) = line.split_at_checked(line.find('/')?)?;
    let mut fields = head.split(' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    (path == program && !permissions.contains('w')).then_some(number(start)?..number(end)?)
}

fn unmap(range: Range<usize>) {
    let start = std::ptr::without_provenance_mut(range.start);
    // SAFETY: nobody may write there and nobody did, so what is read there next is the same, out of the file.
    unsafe {
        nix::libc::madvise(start, range.len(), nix::libc::MADV_DONTNEED);
    }
}

fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes its own locks.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_wrote_and_nobody_may_write_is_unmapped() {
        let maps = "\
55d000000000-55d000100000 r--p 00000000 fe:01 77 /usr/bin/agent daemon
Size:               1024 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
55d000100000-55d000200000 r-xp 00100000 fe:01 77 /usr/bin/agent daemon
Anonymous:             0 kB
55d000200000-55d000300000 r--p 00200000 fe:01 77 /usr/bin/agent daemon
Anonymous:          1024 kB
55d000300000-55d000400000 rw-p 00300000 fe:01 77 /usr/bin/agent daemon
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 fe:01 78 /lib/libc.so.6
Anonymous:             0 kB
7f0000200000-7f0000300000 rw-p 00000000 00:00 0
Anonymous:             0 kB
";
        let found = unchanged(maps, "/usr/bin/agent daemon");
        let expected = [
            0x55d0_0000_0000..0x55d0_0010_0000,
            0x55d0_0010_0000..0x55d0_0020_0000,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_process_that_gave_back_works_on_and_holds_less() {
        let resident = || {
            let status = fs::read_to_string("/proc/self/status").expect("procfs");
            let line = status.lines().find(|line| line.starts_with("RssFile:"));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
                .expect("a number")
        };
        let before = resident();
        give_back().expect("given back");
        let after = resident();
        assert!(after < before, "{before} kB, then {after} kB");
        assert_eq!(format!("{:?}", [1, 2]), "[1, 2]");
    }
}
