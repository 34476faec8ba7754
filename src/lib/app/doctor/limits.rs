//! Checks the kernel and the service manager: version, memory, processes, open files.

use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};

use super::context::{DoctorContext, is_program, quote};
use super::{Finding, service};

/// Landlock, without which a command has no wall where namespaces are forbidden, is in 5.13 and newer; openat2(2),
/// which keeps file tools in the workspace, in 5.6.
const OLDEST_KERNEL: (u32, u32) = (5, 13);
/// The daemon at its peak, with a picture in hand and no mapped index.
const LEAST_MEMORY: u64 = 64 << 20;
/// Its threads, the five programs and a command or two.
const LEAST_TASKS: u64 = 64;
/// Databases, sockets of conversations, files of turns.
const LEAST_FILES: u64 = 256;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let release = read("/proc/sys/kernel/osrelease");
    let mut findings: Vec<Finding> = old_kernel(release.trim()).into_iter().collect();
    findings.extend(memory(&read("/proc/meminfo")));
    // The daemon's own limits, where one runs.
    let who = context
        .pid()
        .map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let group = cgroup(&read(&format!("/proc/{who}/cgroup")));
    if let Some(group) = group {
        findings.extend(in_group(&group, &|name| {
            std::fs::read_to_string(group.join(name)).ok()
        }));
    }
    findings.extend(files(&read(&format!("/proc/{who}/limits"))));
    findings.extend(foreign_programs(context));
    findings.extend(unit_program(context));
    findings
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn old_kernel(release: &str) -> Option<Finding> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let version = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    (version < OLDEST_KERNEL).then(|| {
        let evidence = format!(
            "the kernel is {release}, older than {}.{}: commands may have no wall around them, and file tools may refuse to work",
            OLDEST_KERNEL.0, OLDEST_KERNEL.1
        );
        Finding::warning("kernel-old", evidence, "uname -r")
    })
}

fn memory(meminfo: &str) -> Option<Finding> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    (kib << 10 < LEAST_MEMORY).then(|| {
        let evidence = format!("only {} MB of memory are free on this machine", kib >> 10);
        Finding::warning("memory-low", evidence, "free -m")
    })
}

/// Returns the directory of a control group of version 2 (cgroups(7)).
fn cgroup(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new("/sys/fs/cgroup").join(path))
}

fn in_group(group: &Path, limit: &dyn Fn(&str) -> Option<String>) -> Vec<Finding> {
    let number = |name: &str| limit(name)?.trim().parse::<u64>().ok();
    let show = |name: &str| format!("cat {}", quote(group.join(name)));
    let memory = number("memory.max").filter(|most| *most < LEAST_MEMORY).map(|most| {
        let evidence = format!(
            "the control group may use {} MB of memory (MemoryMax of the unit?): the daemon may be killed",
            most >> 20
        );
        Finding::warning("cgroup-memory", evidence, show("memory.max"))
    });
    let tasks = number("pids.max").filter(|most| *most < LEAST_TASKS).map(|most| {
        let evidence = format!("the control group may have {most} tasks (TasksMax of the unit?): commands may not start");
        Finding::warning("cgroup-tasks", evidence, show("pids.max"))
    });
    memory.into_iter().chain(tasks).collect()
}

/// `limits` is proc_pid_limits(5): name, soft limit, hard limit.
fn files(limits: &str) -> Option<Finding> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let soft: u64 = soft.or_else(|| {
        getrlimit(Resource::RLIMIT_NOFILE)
            .ok()
            .map(|(soft, _)| soft)
    })?;
    (soft < LEAST_FILES).then(|| {
        let evidence =
            format!("only {soft} files may be open at once; the daemon needs {LEAST_FILES}");
        Finding::warning(
            "open-files-limit",
            evidence,
            format!("ulimit -n {LEAST_FILES}"),
        )
    })
}

/// A program beside this one that was built for another machine.
fn foreign_programs(context: &DoctorContext) -> Option<Finding> {
    let dir = context.programs()?;
    let own = machine(&std::env::current_exe().ok()?)?;
    let is_foreign = |name: &String| machine(&dir.join(name)).is_some_and(|other| other != own);
    let foreign: Vec<String> = crate::app::names().filter(is_foreign).collect();
    let first = foreign.first()?;
    let evidence = format!(
        "{} in {} was built for another kind of machine",
        foreign.join(", "),
        dir.display()
    );
    Some(Finding::error(
        "program-foreign",
        evidence,
        format!("file {}", quote(dir.join(first))),
    ))
}

/// Returns `e_machine` of an ELF file (elf(5)).
fn machine(program: &Path) -> Option<[u8; 2]> {
    use std::io::Read;
    let mut head = [0; 20];
    std::fs::File::open(program)
        .ok()?
        .read_exact(&mut head)
        .ok()?;
    match head {
        [0x7f, b'E', b'L', b'F', .., low, high] => Some([low, high]),
        _ => None,
    }
}

/// A unit that is installed and starts a program that is not there.
fn unit_program(context: &DoctorContext) -> Option<Finding> {
    let file = service::unit(context)?.file;
    let text = std::fs::read_to_string(&file).ok()?;
    let program = started(&text)?;
    (!is_program(Path::new(program))).then(|| {
        let evidence = format!(
            "{} starts {program}, which is no program here",
            file.display()
        );
        let command = format!("grep -n ^ExecStart {}", quote(&file));
        Finding::error("unit-program-missing", evidence, command)
    })
}

/// Returns the program of the first `ExecStart=`, where it is a path without specifiers (systemd.service(5)).
fn started(unit: &str) -> Option<&str> {
    let line = unit
        .lines()
        .find_map(|line| line.trim().strip_prefix("ExecStart="))?;
    let program = line
        .split_whitespace()
        .next()?
        .trim_start_matches(['-', '@', ':', '+', '!', '|']);
    (program.starts_with('/') && !program.contains('%')).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_that_is_too_tight_is_a_finding_and_a_usual_one_is_none() {
        let id = |finding: Option<Finding>| finding.map(|finding| finding.id);
        for (release, expected) in [
            ("4.19.0-27-amd64", Some("kernel-old")),
            ("5.10.0", Some("kernel-old")),
            ("5.13.0-1", None),
            ("6.1.0-18-amd64", None),
            ("unknown", None),
        ] {
            assert_eq!(id(old_kernel(release)), expected, "{release}");
        }
        assert_eq!(
            id(memory("MemTotal: 1 kB\nMemAvailable:      40000 kB\n")),
            Some("memory-low")
        );
        assert_eq!(id(memory("MemAvailable:   8000000 kB\n")), None);
        assert_eq!(
            id(files(
                "Max open files            64                   4096                 files\n"
            )),
            Some("open-files-limit")
        );
        assert_eq!(
            id(files(
                "Max open files            1024                 524288               files\n"
            )),
            None
        );
        let group = |memory: &str, tasks: &str| {
            let limit =
                |name: &str| Some(if name == "memory.max" { memory } else { tasks }.to_owned());
            let findings = in_group(Path::new("/g"), &limit);
            findings
                .iter()
                .map(|finding| finding.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            group("33554432\n", "20\n"),
            ["cgroup-memory", "cgroup-tasks"]
        );
        assert_eq!(group("max\n", "max\n"), [] as [&str; 0]);
        assert_eq!(group("1073741824\n", "4915\n"), [] as [&str; 0]);
    }

    #[test]
    fn the_program_of_a_unit_is_read_off_its_file() {
        assert_eq!(
            started("[Service]\nExecStart=/usr/bin/agent-daemon run\n"),
            Some("/usr/bin/agent-daemon")
        );
        assert_eq!(started("ExecStart=-/opt/x"), Some("/opt/x"));
        assert_eq!(started("ExecStart=%h/.local/bin/agent-daemon"), None);
        assert_eq!(started("[Unit]\n"), None);
    }

    #[test]
    fn a_control_group_is_a_directory() {
        assert_eq!(
            cgroup("0::/system.slice/agent-daemon.service\n"),
            Some("/sys/fs/cgroup/system.slice/agent-daemon.service".into())
        );
        assert_eq!(cgroup("1:name=systemd:/\n"), None);
    }

    #[test]
    fn a_program_of_this_machine_says_so() {
        let own = std::env::current_exe().expect("a program");
        assert!(machine(&own).is_some());
        assert_eq!(machine(Path::new("/etc/hostname")), None);
    }
}
