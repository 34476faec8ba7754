//! `exec`: run a shell command in the sandbox.

mod environment;
mod files_in_command;
mod host_approval;
mod known_programs;
mod output_tail;
mod question;
mod resolve_program;
mod untrusted_files;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};

use super::changed_files::ChangedFiles;
use super::network;
use super::typed::{About, TypedTool};
use crate::agent::{Context, Question, Reach, ToolOutput};
use crate::audit;
use crate::config;
use crate::config::{Network, Policy};
use crate::memory::Scope;
use crate::net::egress_proxy::{Answer, Ask, Destination, Session};
use crate::sandbox;
use crate::sandbox::{Spec, Status};
use crate::sys::OpenedFiles;
use crate::text::{HostPort, counted, shorten, visible};
use crate::trust::Provenance;
use crate::undo;
use crate::workspace::{Marking, Period};
pub use environment::environment;
use host_approval::Pauses;
pub use known_programs::{KNOWN_PROGRAMS, known_programs};
use output_tail::Tail;
use untrusted_files::{Agreed, Command, MarkedFiles, Named};

/// Output kept of a command, bytes: of the 30,000 characters that reach the model (specification §7), the
/// rest is for what is said below it.
const MAX_OUTPUT: usize = 29_000;

/// Between two messages about a command that runs.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How long the owner may be asked while a command waits, a little more than they may take for one answer.
const MAX_PAUSED: Duration = Duration::from_secs(1000);

/// How commands run here.
#[derive(Debug, Clone)]
pub struct ExecSettings {
    /// Where they run and may write.
    pub workspace: PathBuf,
    /// Directories that do not exist for them.
    pub hidden: Vec<PathBuf>,
    /// What the settings say of them.
    pub rules: config::Exec,
    /// Hosts whose words count as the owner's.
    pub trusted_hosts: Vec<String>,
    /// True when the owner wrote `sandbox = "off"`.
    pub off: bool,
    /// The environment they see, see [`environment()`].
    pub env: Vec<(String, String)>,
    /// Megabytes of the disk that they leave free.
    pub reserve_mb: u64,
    /// The well-known programs that commands find.
    pub programs: Vec<&'static str>,
}

#[derive(Clone)]
pub(super) struct Exec {
    settings: Arc<ExecSettings>,
    /// Knows which files are marked as untrusted.
    undo: Arc<undo::Store>,
    audit: audit::Log,
    /// Runs the commands.
    sandbox: sandbox::Ahead,
}

#[derive(Default, Deserialize, JsonSchema)]
pub(super) struct Args {
    command: String,
    #[schemars(range(min = 1))]
    timeout_secs: Option<u64>,
    #[serde(default)]
    cwd: String,
}

impl TypedTool for Exec {
    type Args = Args;

    const ABOUT: About = About {
        name: "exec",
        description: "Run a shell command in a sandbox: workspace writable, system read-only, the owner's files invisible; `df .` shows the disk, `df /` does not.",
        properties: &[],
    };

    fn description(&self) -> Cow<'static, str> {
        let ExecSettings {
            rules,
            off,
            programs,
            ..
        } = &*self.settings;
        let network = if *off {
            "There is no sandbox here, and the network is the machine's.".to_owned()
        } else {
            network::description(&rules.network)
        };
        let installed = match programs.is_empty() {
            true => String::new(),
            false => format!(" Installed: {}.", programs.join(", ")),
        };
        format!("{} {network}{installed}", Self::ABOUT.description).into()
    }

    fn policy(&self, args: &Args) -> Option<Policy> {
        let settings = &self.settings;
        let is_fixed = |program: &str| settings.is_fixed(program);
        Some(settings.rules.policy_of(&args.command, &is_fixed))
    }

    fn reach(&self, args: &Args, _context: &Context) -> Reach {
        if self.undo.marks.all().is_none() && !self.settings.only_looks(&args.command) {
            let why = "nobody can tell which files untrusted runs wrote: state/untrusted.json cannot be read";
            return Reach::Asks(why.to_owned());
        }
        match self.unasked(args) {
            files if !files.is_empty() => Reach::Obeys(files),
            // As `read` does. Without walls a command sees more than that tool.
            _ if !self.settings.off && self.settings.only_looks(&args.command) => Reach::Shows,
            _ => Reach::Acts,
        }
    }

    /// The yes hangs on the files that the command names, and on those that it may run without naming them. Of files that
    /// nobody wanted it is about these alone: there is no rule.
    fn question(&self, args: &Args, _input: &Value) -> Question {
        let mut question = self.settings.question(args);
        let files = self.unasked(args);
        let marks = &self.undo.marks;
        if !files.is_empty() {
            question.rule = None;
            question.bound_to = json!([question.bound_to, marks.state_of(|_| true), files]);
        } else if question.rule.is_none() {
            let state = untrusted_files::state(&args.command, marks);
            question.bound_to = json!([question.bound_to, state]);
        }
        question
    }

    /// A command that nobody waits for any more comes to its end nevertheless: what it changed is marked.
    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let cancel = context.cancel.child_token();
        let _guard = cancel.clone().drop_guard();
        let exec = self.clone();
        let context = Context {
            cancel,
            ..context.clone()
        };
        let running = tokio::spawn(async move { exec.execute(args, &context).await });
        match running.await {
            Ok(output) => output,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => ToolOutput::error(format!("the command was ended: {error}")),
            },
        }
    }
}

/// A command that is about to run.
struct Prepared {
    spec: Spec,
    marked: MarkedFiles,
    watch: OpenedFiles,
    /// In which it may bring untrusted text.
    period: Period,
}

fn receipt(command: &str) -> String {
    let first = command.lines().next().unwrap_or_default();
    format!("ran {}", shorten(first, 120))
}

/// Returns true for a command that may not say what was closed to it.
fn hides_errors(command: &str) -> bool {
    let signs = ["/dev/null", "2>&-", "|| true", "|| :"];
    signs.iter().any(|sign| command.contains(sign))
}

/// Returns true for the output of a command that something was closed to, or that was cut before it said so.
fn was_denied(output: &str) -> bool {
    let signs = [
        "ermission denied",
        "EACCES",
        "ermissionError",
        "Read-only file system",
        "EROFS",
        "esource busy",
        "EBUSY",
        "[cut ",
    ];
    signs.iter().any(|sign| output.contains(sign))
}

/// Returns the files about which the question was to which the owner said yes, those first that it named.
fn agreed_files(context: &Context) -> Option<Vec<String>> {
    let files = context.approved.as_ref()?.get(2)?.as_array()?;
    let files = files.iter().filter_map(Value::as_str);
    Some(files.map(str::to_owned).collect())
}

impl Exec {
    /// Returns the files that the command may run and that nobody wanted. Blocks a little.
    fn unasked(&self, args: &Args) -> Vec<String> {
        let settings = &self.settings;
        match settings.cwd(args) {
            Ok(cwd) if !settings.only_looks(&args.command) => {
                self.files().settle_servers();
                self.command(args, &cwd).unasked(&self.undo)
            }
            _ => Vec::new(),
        }
    }

    fn command<'a>(&'a self, args: &'a Args, cwd: &'a Path) -> Command<'a> {
        Command {
            line: &args.command,
            cwd,
            workspace: &self.settings.workspace,
        }
    }

    async fn execute(&self, args: Args, context: &Context) -> ToolOutput {
        let seconds = self.settings.seconds(&args);
        let (exec, spec_context) = (self.clone(), context.clone());
        let prepared = crate::sys::blocking(move || exec.prepare(args, &spec_context)).await;
        let Prepared {
            mut spec,
            marked,
            watch,
            period,
        } = match prepared {
            Ok(prepared) => prepared,
            Err(why) => return ToolOutput::error(format!("the command was not run: {why}")),
        };
        let pauses = Pauses::default();
        let ask = host_approval::ask(context, &spec.command, &pauses);
        let ask = self.noting(ask, &period);
        let session = Session::new(network::rules(&self.settings.rules.network), Some(ask));
        if !self.settings.off {
            network::give(&session, &mut spec);
        }
        let (ran, is_silent) = (receipt(&spec.command), hides_errors(&spec.command));
        let mut output = match run_and_tell(&self.sandbox, spec, context, &pauses).await {
            Ok(outcome) => report(outcome, seconds),
            Err(error) => ToolOutput::error(format!("the command was not run: {error}")),
        };
        let visits = session.take_visits();
        network::record(
            &self.audit,
            network::audited(context, Self::ABOUT.name),
            &visits,
        );
        if !output.is_error || !visits.is_empty() {
            output.receipt = Some(ran + &network::receipt(&visits));
        }
        for line in network::refusals(&visits) {
            end_line(&mut output.text);
            output.text.push_str(&line);
        }
        let host = network::untrusted_host(&visits, &self.settings.trusted_hosts);
        let (exec, context, printed) = (self.clone(), context.clone(), output.text.clone());
        let closed = marked.closed.len();
        let origin = move || exec.origin(&printed, host, (marked, watch), &period, &context);
        let mut output = output.marked(crate::sys::blocking(origin).await);
        if closed > 0 && (is_silent || was_denied(&output.text)) {
            end_line(&mut output.text);
            output.text.push_str(&format!(
                "[closed to this command: {}, written by runs that had read untrusted words; the owner is asked about a command that names one]",
                counted(closed, "file")
            ));
        }
        output
    }

    /// Writes down that a command may bring untrusted text from now on, before it runs; one that reaches no host waits for
    /// no disk. Blocks.
    fn begin(
        &self,
        marked: &MarkedFiles,
        period: &Period,
        context: &Context,
    ) -> Result<(), String> {
        let settings = &self.settings;
        let is_trusted =
            |host: &String| config::names_host(&settings.trusted_hosts, HostPort::host_of(host));
        let reaches = settings.off
            || match &settings.rules.network {
                Network::Public => true,
                Network::Hosts(hosts) => !hosts.iter().all(is_trusted),
                Network::Closed => false,
            };
        if !reaches && !context.untrusted && !marked.are_there() {
            return Ok(());
        }
        let begun = self.undo.marks.periods.begin(period, reaches);
        begun.map_err(|error| error.to_string())
    }

    /// Returns `ask`, after whose yes to a host it is written down that the command may bring untrusted text.
    fn noting(&self, ask: Ask, period: &Period) -> Ask {
        let (exec, period) = (self.clone(), period.clone());
        Arc::new(move |destination: Destination| {
            let (exec, period) = (exec.clone(), period.clone());
            let is_trusted = config::names_host(&exec.settings.trusted_hosts, &destination.host);
            let answer = ask(destination);
            Box::pin(async move {
                let answer = answer.await;
                if answer != Answer::Yes || is_trusted {
                    return answer;
                }
                let begin = move || exec.undo.marks.periods.begin(&period, true);
                match crate::sys::blocking(begin).await {
                    Ok(()) => answer,
                    Err(error) => Answer::No(error.to_string()),
                }
            })
        })
    }

    /// Returns where the `output` of a command came from: what it read over the network or in untrusted files is
    /// untrusted, and so are the names of those; and marks what it changed. Blocks.
    fn origin(
        &self,
        output: &str,
        host: Option<Provenance>,
        (mut marked, watch): (MarkedFiles, OpenedFiles),
        period: &Period,
        context: &Context,
    ) -> Option<Provenance> {
        let workspace = &self.settings.workspace;
        let touched = marked.touched(watch, &self.undo, workspace, output);
        let is_agreed = marked.is_agreed(&self.undo, period);
        marked.carry(&self.files(), &self.undo, workspace);
        let off = self.settings.off;
        // A command that the owner read and said yes to depends on nothing else of the run: what it changed is theirs like
        // what a command of a clean run changed.
        let all = off || context.untrusted && !marked.is_watched || marked.is_damaged;
        if all || host.is_some() || touched.any {
            let by = context.marking();
            let is_wanted = touched.asked || is_agreed || context.untrusted;
            let asked = by.asked && is_wanted && !marked.is_damaged;
            marked.change.agreed = is_agreed;
            let files = self.files();
            files.mark_since(period.since, Marking { asked, ..by }, &marked.change);
        } else {
            let files = self.files();
            files.mark_beside_servers(period.since, context.marking(), &marked.change);
        }
        if is_agreed {
            marked.agree(&self.undo);
        }
        if let Some(named) = &marked.named {
            named.agree(&self.undo.marks);
        }
        self.files().end(&period.id);
        if off {
            return Some(Provenance::of_host("the network, by a command"));
        }
        let of_file = |path: PathBuf| {
            let below = path.strip_prefix(workspace).unwrap_or(&path);
            Provenance::File(shorten(&visible(&below.display().to_string()), 80))
        };
        // A yes to a command is no order to the model: what it prints may be what somebody had it print.
        let of_run = (all || context.untrusted).then_some(Provenance::Model);
        host.or(of_run).or(touched.read.map(of_file))
    }

    pub(super) fn new(settings: ExecSettings, undo: Arc<undo::Store>, audit: audit::Log) -> Self {
        let settings = Arc::new(settings);
        Self {
            settings,
            undo,
            audit,
            sandbox: sandbox::Ahead::default(),
        }
    }

    fn files(&self) -> ChangedFiles {
        ChangedFiles::new(&self.settings.workspace, self.undo.clone())
    }

    /// Looks up what a command may see. Blocks.
    fn prepare(&self, args: Args, context: &Context) -> Result<Prepared, String> {
        let settings = &self.settings;
        let cwd = settings.cwd(&args)?;
        let timeout = Duration::from_secs(settings.seconds(&args));
        let mut hidden = settings.hidden.clone();
        if !context.viewer.may_see(&Scope::Owner) {
            hidden.extend(crate::workspace::memory_paths(&settings.workspace));
        }
        // Where all that a command prints is untrusted, nothing need be closed to it.
        let command = self.command(&args, &cwd);
        let is_read = context.approved.is_some() && question::is_legible(command.line);
        let mut marked = if settings.off || context.untrusted && !is_read {
            MarkedFiles::none(&self.undo, &settings.workspace)
        } else {
            self.files().settle_servers();
            // Between a decision and a run files may be written: only a yes opens what may be run.
            let agreed = agreed_files(context).unwrap_or_default();
            let opens_named =
                settings.only_looks(command.line) || self.policy(&args) == Some(Policy::Allow);
            MarkedFiles::find(&self.files(), &self.undo, &command, &|key, is_named| {
                context.untrusted || is_named && opens_named || agreed.iter().any(|one| one == key)
            })
        };
        hidden.extend(marked.closed.iter().cloned());
        let watch = marked.watch();
        let by = context.marking();
        let id = format!("{}-{}", by.run, uuid::Uuid::new_v4().simple());
        // Of the files that it opens nobody may know who wanted them.
        let asked = by.asked && (context.untrusted || !marked.are_there());
        let period = self.files().period(id, by.at, Marking { asked, ..by });
        self.begin(&marked, &period, context)?;
        if context.untrusted {
            marked.change.there = Some(self.files().there());
            marked.named = Named::of(agreed_files(context), &self.undo.marks);
        } else if !settings.off {
            let id = command.id();
            marked.agreed = Agreed::of(&id, agreed_files(context), &self.undo);
            marked.change.command = Some(id);
        }
        self.undo
            .note_command(&context.run_id, &context.conversation.0);
        let spec = Spec {
            command: args.command,
            cwd,
            workspace: settings.workspace.clone(),
            writable: Vec::new(),
            hidden,
            read_only: crate::workspace::protected_paths(&settings.workspace),
            exit: None,
            env: settings.env.clone(),
            timeout,
            max_output: MAX_OUTPUT,
            off: settings.off,
            disk_reserve: settings.reserve_mb.saturating_mul(1 << 20),
        };
        Ok(Prepared {
            spec,
            marked,
            watch,
            period,
        })
    }
}

impl ExecSettings {
    fn seconds(&self, args: &Args) -> u64 {
        args.timeout_secs
            .unwrap_or(self.rules.timeout_secs)
            .clamp(1, self.rules.max_timeout_secs)
    }

    /// Returns where a command starts, without links.
    fn cwd(&self, args: &Args) -> Result<PathBuf, String> {
        let named = &args.cwd;
        let workspace = self
            .workspace
            .canonicalize()
            .map_err(|error| format!("the workspace cannot be found: {error}"))?;
        let cwd = workspace
            .join(named)
            .canonicalize()
            .map_err(|error| format!("cwd {named}: {error}"))?;
        if cwd.starts_with(&workspace) {
            Ok(cwd)
        } else {
            Err(format!("cwd {named} is not in the workspace"))
        }
    }
}

/// Runs a command and tells those who wait its last line, once a second. The time in which the owner is asked
/// is not the command's.
async fn run_and_tell(
    sandbox: &sandbox::Ahead,
    mut spec: Spec,
    context: &Context,
    pauses: &Pauses,
) -> Result<sandbox::Outcome, sandbox::Error> {
    let tail = Tail::default();
    let listen = |bytes: &[u8]| tail.push(bytes);
    let limit = spec.timeout;
    if context.ask_owner.is_possible() {
        spec.timeout += MAX_PAUSED;
    }
    let (began, overtime) = (Instant::now(), context.cancel.child_token());
    let run = sandbox.run(spec, overtime.clone(), &listen);
    tokio::pin!(run);
    let mut tick = interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    loop {
        let paused = pauses.total();
        let over = async {
            match paused {
                Some(paused) => tokio::time::sleep_until(began + limit + paused).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            outcome = &mut run => {
                let is_over = overtime.is_cancelled() && !context.cancel.is_cancelled();
                return outcome.map(|outcome| sandbox::Outcome {
                    status: if is_over { Status::TimedOut } else { outcome.status },
                    ..outcome
                });
            }
            () = over, if !overtime.is_cancelled() => {
                // They may be asked since a moment ago.
                if pauses.total() == paused {
                    overtime.cancel();
                }
            }
            _ = tick.tick() => {
                if let Some(words) = tail.news() {
                    context.progress.tell("exec", words);
                }
            }
        }
    }
}

/// Returns the output as it came, then one line for what the output does not show.
fn report(outcome: sandbox::Outcome, seconds: u64) -> ToolOutput {
    let mut text = outcome.output;
    if let Some(bytes) = outcome.cut {
        end_line(&mut text);
        text.push_str(&format!("[cut {bytes} bytes]"));
    }
    let name = |path: &PathBuf| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    if !outcome.restored.is_empty() && outcome.replaced.is_none() {
        let names: Vec<String> = outcome.restored.iter().map(name).collect();
        end_line(&mut text);
        text.push_str(&format!(
            "[commands do not change what shapes the agent; as before again: {}]",
            names.join(", ")
        ));
    }
    if let Some(path) = &outcome.replaced {
        end_line(&mut text);
        return ToolOutput::error(format!(
            "{text}[ended: somebody replaced {0} meanwhile, which commands must not change; {0} is as before, and the new one is called {0}.from-a-command; run it again]",
            name(path)
        ));
    }
    let end = match outcome.status {
        Status::Exited(0) => return ToolOutput::ok(text),
        Status::Exited(code) => format!("[exit {code}]"),
        Status::Signaled(signal) => format!("[killed by signal {signal}]"),
        Status::OutOfMemory => "[killed: its processes together held too much memory]".to_owned(),
        Status::DiskFull => "[killed: it left less disk space free than [media] reserve_mb; what it wrote is still there]".to_owned(),
        Status::TimedOut => format!("[timed out after {seconds} s]"),
        Status::Cancelled => "[stopped]".to_owned(),
    };
    end_line(&mut text);
    ToolOutput::error(text + &end)
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Marks;
    use std::path::Path;

    pub(super) fn settings(workspace: &Path) -> ExecSettings {
        let env = vec![
            ("TZ".into(), "UTC".into()),
            ("PATH".into(), "/usr/bin:/bin".into()),
        ];
        ExecSettings {
            workspace: workspace.into(),
            hidden: Vec::new(),
            rules: config::Exec::default(),
            trusted_hosts: Vec::new(),
            off: false,
            env,
            reserve_mb: 0,
            programs: Vec::new(),
        }
    }

    #[test]
    fn a_command_starts_in_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap().join("w");
        std::fs::create_dir(&workspace).unwrap();
        std::os::unix::fs::symlink("/etc", workspace.join("way-out")).unwrap();
        let settings = settings(&workspace);
        let cwd = |named: &str| {
            settings
                .cwd(&Args {
                    cwd: named.to_owned(),
                    ..Args::default()
                })
                .ok()
        };
        assert_eq!(
            (cwd("."), cwd("../w")),
            (Some(workspace.clone()), Some(workspace.clone()))
        );
        for named in ["/etc", "..", "../..", "way-out", "missing", "a\0b"] {
            assert_eq!(cwd(named), None, "{named}");
        }
    }

    #[test]
    fn what_a_command_changed_that_the_owner_read_and_agreed_to_is_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap().join("w");
        std::fs::create_dir(&workspace).unwrap();
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let undo = Arc::new(undo::Store::new(dir.path().join("undo"), marks));
        let exec = Exec::new(settings(&workspace), undo.clone(), audit::Log::off());
        let put = |name: &str| {
            let words = format!("the words of {name}, some of them");
            let durability = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(&workspace.join(name), words.as_bytes(), durability).unwrap();
            words
        };
        let (run, asked, at) = ("r", true, 5);
        let words = put("build.log");
        let by = Marking { run, asked, at };
        undo.marks
            .set_with("build.log", words.as_bytes(), by)
            .unwrap();
        let check = |made: &str, approved, command: &str, opens: bool, marked: bool| {
            let context = Context {
                untrusted: true,
                approved,
                ..crate::tools::files::tests::context()
            };
            let args = Args {
                command: command.to_owned(),
                ..Args::default()
            };
            let prepared = exec.prepare(args, &context).unwrap();
            put(made);
            if opens {
                std::fs::read(workspace.join("build.log")).unwrap();
            }
            let files = (prepared.marked, prepared.watch);
            let from = exec.origin("", None, files, &prepared.period, &context);
            assert_eq!(from, Some(Provenance::Model), "{made}");
            assert_eq!(undo.marks.has(made), marked, "{made}");
            std::thread::sleep(Duration::from_millis(30));
        };
        let yes = || Some(json!(["exec"]));
        check("a.pyc", yes(), "make test", false, false);
        check("b.pyc", yes(), "make test", true, true);
        check("under-a-rule.pyc", None, "make test", false, true);
        check("c.pyc", yes(), "echo b3du | base64 -d > c.pyc", false, true);
    }

    #[test]
    fn a_yes_in_an_untrusted_run_is_for_the_file_as_it_is_in_later_runs_too() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap().join("w");
        std::fs::create_dir(&workspace).unwrap();
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let undo = Arc::new(undo::Store::new(dir.path().join("undo"), marks));
        let exec = Exec::new(settings(&workspace), undo.clone(), audit::Log::off());
        let put = |at: i64| {
            let words = format!("print({at}) # written after a page was read");
            let durability = crate::sys::atomic::Durability::Rename;
            let path = workspace.join("sum.py");
            crate::sys::atomic::write(&path, words.as_bytes(), durability).unwrap();
            let (run, asked) = ("r", false);
            let by = Marking { run, asked, at };
            undo.marks.set_with("sum.py", words.as_bytes(), by).unwrap();
        };
        let args = || Args {
            command: "python3 sum.py".to_owned(),
            ..Args::default()
        };
        let run = |approved, meanwhile: &dyn Fn()| {
            let context = Context {
                untrusted: true,
                approved,
                ..crate::tools::files::tests::context()
            };
            std::thread::sleep(Duration::from_millis(30));
            let prepared = exec.prepare(args(), &context).unwrap();
            meanwhile();
            let files = (prepared.marked, prepared.watch);
            drop(exec.origin("", None, files, &prepared.period, &context));
        };
        let yes = || Some(exec.question(&args(), &Value::Null).bound_to);
        put(1);
        run(None, &|| {});
        assert_eq!(exec.unasked(&args()), ["sum.py"], "without a yes");
        run(yes(), &|| put(2));
        assert_eq!(exec.unasked(&args()), ["sum.py"], "another text");
        run(yes(), &|| {});
        assert_eq!(exec.unasked(&args()), Vec::<String>::new());
        put(3);
        assert_eq!(exec.unasked(&args()), ["sum.py"], "another text");
    }

    #[test]
    fn the_result_is_the_output_and_nothing_stands_before_it() {
        let outcome = |output: &str, status| sandbox::Outcome {
            output: output.into(),
            status,
            cut: None,
            replaced: None,
            restored: Vec::new(),
        };
        assert_eq!(
            report(outcome("hi\n", Status::Exited(0)), 9),
            ToolOutput::ok("hi\n")
        );
        assert_eq!(
            report(outcome("no", Status::Exited(2)), 9),
            ToolOutput::error("no\n[exit 2]")
        );
        assert_eq!(
            report(outcome("", Status::TimedOut), 9),
            ToolOutput::error("[timed out after 9 s]")
        );
    }
}
