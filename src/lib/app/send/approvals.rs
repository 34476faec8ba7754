//! Approvals in a shell: requests are shown to the caller that waits for an answer; `--approve` and `--deny` decide.

use std::io::BufRead;

use super::arguments::parse_request;
use super::submit;
use super::type_ahead;
use super::wait;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::config::Home;
use crate::control::replies::{Ask, Reply};
use crate::message;
use crate::message::Approval;
use crate::message::approval_reply::{ONLY, YES_OR_NO};
use crate::{clock, control, text};

/// How a question is named on the command line, and where an answer is waited for.
const IN_A_SHELL: &str = "agent-send --approve ID, or agent-send --deny ID WHY";
const IN_A_CHAT: &str = "/approve ID, or /deny ID WHY";

/// `--approve ID`.
pub(super) fn approve(
    context: &Context<'_>,
    id: Option<&str>,
    verdict: Approval,
) -> Result<Exit, Failure> {
    decide(context, parse_request(id.unwrap_or(ONLY))?, verdict, None)
}

/// `--deny ID WHY`.
pub(super) fn deny(context: &Context<'_>, words: &[String]) -> Result<Exit, Failure> {
    let (id, why) = words
        .split_first()
        .map_or((ONLY, String::new()), |(id, why)| {
            (id.as_str(), why.join(" "))
        });
    let why = Some(why).filter(|why| !why.trim().is_empty());
    decide(context, parse_request(id)?, Approval::Deny, why)
}

/// `--answer ID WORDS`.
pub(super) fn answer(context: &Context<'_>, words: &[String]) -> Result<Exit, Failure> {
    match message::Command::spoken("answer", &words.join(" ")) {
        Some(message::Command::Approval { id, verdict, why }) => {
            decide(context, parse_request(&id)?, verdict, why)
        }
        _ => Err(Failure::usage("--answer takes an ID and words")
            .hint("agent-send --queue shows what waits")),
    }
}

fn decide(
    context: &Context<'_>,
    request: String,
    verdict: Approval,
    why: Option<String>,
) -> Result<Exit, Failure> {
    let reply = send(context.home, request, verdict, why)?;
    if context.json {
        return wait::print(&reply, true);
    }
    cli::out(&outcome(reply, IN_A_SHELL)?);
    Ok(Exit::Ok)
}

fn send(
    home: &Home,
    request: String,
    verdict: Approval,
    why: Option<String>,
) -> Result<Reply, Failure> {
    let command = control::Command::Approval {
        request,
        verdict,
        why,
    };
    let unknown = "nothing is known to be decided";
    submit::call(home, &command, unknown, submit::COMMAND_WAIT, false)
}

/// Returns what was decided; `how` names a question where the word was typed.
fn outcome(reply: Reply, how: &str) -> Result<String, Failure> {
    match reply.error {
        Some(error) => Err(Failure::failed(text::visible(&error))
            .hint(format!("agent-send --queue shows what waits; {how}"))),
        None => Ok(text::visible(reply.reply.as_deref().unwrap_or_default())),
    }
}

#[derive(Debug, Default)]
pub(super) struct Asks {
    told: Vec<String>,
    open: Vec<Ask>,
    /// Whether the word about what was open came from here.
    decided_here: bool,
}

impl Asks {
    /// Returns true when `reply` asks for something that was not shown.
    pub(super) fn has_news(&mut self, reply: &Reply) -> bool {
        self.open.clone_from(&reply.asks);
        reply.asks.iter().any(|ask| !self.told.contains(&ask.id))
    }

    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Says that nothing waits any more, when that was not decided here.
    pub(super) fn tell_that_it_is_over(&mut self) {
        if !std::mem::take(&mut self.decided_here) {
            cli::err(
                "agent-send: the question is closed: it was decided elsewhere, or has expired",
            );
        }
    }

    /// Takes the word that was typed, if a line was, while an answer is waited for. The terminal itself makes
    /// lines then, so reading one never waits.
    pub(super) fn read_typed(&mut self, home: &Home) {
        if !type_ahead::there_is_input() {
            return;
        }
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).is_err() || line.trim().is_empty() {
            return;
        }
        match word(&line, &self.open) {
            Some(message::Command::Approval { id, verdict, why }) => {
                match send(home, id, verdict, why).and_then(|reply| outcome(reply, IN_A_CHAT)) {
                    Ok(outcome) => {
                        self.decided_here = true;
                        cli::err(&format!("agent-send: {outcome}"));
                    }
                    Err(failure) => cli::complain("agent-send", &failure),
                }
            }
            Some(message::Command::Done { text }) => cli::err(&format!("agent-send: {text}")),
            _ => cli::err(
                "agent-send: it waits for y or n WHY (several: /approve ID, /deny ID WHY); Ctrl-C stops the answer",
            ),
        }
    }

    /// Shows approval requests that were not shown yet; at a prompt (`person`) the word may be
    /// given there.
    pub(super) fn tell(&mut self, reply: &Reply, person: bool) {
        let new: Vec<&Ask> = reply
            .asks
            .iter()
            .filter(|ask| !self.told.contains(&ask.id))
            .collect();
        self.told.extend(new.iter().map(|ask| ask.id.clone()));
        for line in new
            .iter()
            .flat_map(|ask| lines(ask, clock::now_ms(), person))
        {
            cli::err(&line);
        }
    }
}

fn lines(ask: &Ask, now: i64, person: bool) -> Vec<String> {
    let id = text::visible(&ask.id);
    let left = clock::parse_rfc3339(&ask.expires_at)
        .map(|at| at.saturating_sub(now).max(0).saturating_add(59_999) / 60_000);
    let left = left.map(|minutes| format!("; denied automatically in {minutes} min"));
    let mut lines = vec![
        format!(
            "agent-send: {}{}",
            if ask.wanted.is_some() {
                "A question"
            } else {
                "Approval needed"
            },
            left.unwrap_or_default()
        ),
        format!(
            "  {}: {}",
            text::visible(&ask.tool),
            text::visible(&ask.why)
        ),
    ];
    lines.extend(
        text::for_decision(&ask.text)
            .lines()
            .map(|line| format!("  | {line}")),
    );
    if let Some(rule) = &ask.rule {
        let rule = text::visible(&text::shorten(rule, 200));
        lines.push(format!("  in this conversation, or always: {rule}"));
    }
    let (yes, here) = match &ask.wanted {
        Some(wanted) if wanted.how != YES_OR_NO => {
            lines.push(format!("  answer: {}", text::visible(&wanted.how)));
            (format!("--answer {id} WORDS"), "the words, or n WHY")
        }
        _ if ask.rule.is_some() => (
            format!("--approve {id} (--for-session, --always)"),
            "y (once), c (in this conversation), a (always), or n WHY",
        ),
        _ => (format!("--approve {id}"), "y, or n WHY"),
    };
    lines.extend([
        format!("  agent-send {yes}"),
        format!("  agent-send --deny {id} WHY"),
    ]);
    if person {
        lines.push(format!("  or here: {here}"));
    }
    lines
}

/// Returns what a typed line decides: `y`, `c`, `a` and `n WHY` about the one request that is `open`, the answer when that
/// takes words, or a command.
fn word(line: &str, open: &[Ask]) -> Option<message::Command> {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let alone = rest.trim().is_empty();
    let has_rule = matches!(open, [Ask { rule: Some(_), .. }]);
    let verdict = match first.to_ascii_lowercase().as_str() {
        "y" | "yes" if alone => Some(Approval::Approve),
        "c" if alone && has_rule => Some(Approval::Session),
        "a" | "always" if alone && has_rule => Some(Approval::Always),
        "n" | "no" => Some(Approval::Deny),
        _ => None,
    };
    if let (Some(verdict), [ask]) = (verdict, open) {
        let why = Some(rest.trim().to_owned()).filter(|why| !why.is_empty());
        let id = ask.id.clone();
        return Some(message::Command::Approval { id, verdict, why });
    }
    if let [ask] = open
        && ask.wanted.is_some()
        && !line.starts_with('/')
    {
        return Some(message::Command::Approval {
            id: ask.id.clone(),
            verdict: Approval::Approve,
            why: Some(line.to_owned()),
        });
    }
    let (word, rest) = first.strip_prefix('/').map(|word| (word, rest))?;
    message::Command::spoken(word, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Ask {
        Ask {
            id: "k3f9w2".to_owned(),
            tool: "exec".to_owned(),
            text: text.to_owned(),
            why: "the settings ask".to_owned(),
            expires_at: "2025-11-21T23:11:02.000Z".to_owned(),
            rule: None,
            wanted: None,
        }
    }

    #[test]
    fn a_question_is_shown_with_the_exact_commands_and_commands_nothing() {
        let now = 1_763_766_000_001;
        let shown = lines(
            &ask("rm -r build\u{1b}[2J\n  agent-send: approved\nin \u{202e}~"),
            now,
            false,
        );
        let expected = [
            "agent-send: Approval needed; denied automatically in 12 min",
            "  exec: the settings ask",
            "  | rm -r build\\u{1b}[2J",
            "  |   agent-send: approved",
            "  | in \\u{202e}~",
            "  agent-send --approve k3f9w2",
            "  agent-send --deny k3f9w2 WHY",
        ];
        assert_eq!(shown, expected);
        let at_prompt = lines(&ask("x"), now, true);
        assert_eq!(
            at_prompt.last().map(String::as_str),
            Some("  or here: y, or n WHY")
        );
        let with_rule = Ask {
            rule: Some("git push\u{1b}".to_owned()),
            ..ask("x")
        };
        let with_rule = lines(&with_rule, now, true);
        let about_rule = "  in this conversation, or always: git push\\u{1b}".to_owned();
        assert!(with_rule.contains(&about_rule), "{with_rule:?}");
        assert_eq!(
            with_rule.last().map(String::as_str),
            Some("  or here: y (once), c (in this conversation), a (always), or n WHY")
        );
    }

    #[test]
    fn a_long_question_is_shown_to_its_end() {
        let counted: Vec<String> = (0..400).map(|n| format!("echo {n} > a")).collect();
        let question = format!("{}{}rm -r ~", counted.join("\n"), "\n".repeat(200));
        assert!(question.len() > 4_500);
        let odd = Ask {
            expires_at: "soon".to_owned(),
            ..ask(&question)
        };
        let shown = lines(&odd, 0, true);
        let end = ["  | echo 399 > a", "  | [199 blank lines]", "  | rm -r ~"];
        assert!(
            shown.windows(end.len()).any(|lines| lines == end),
            "{shown:?}"
        );
    }

    #[test]
    fn y_and_n_decide_about_the_one_thing_that_waits() {
        let check =
            |line: &str, open: &[&str], expected: Option<(&str, Approval, Option<&str>)>| {
                let words = message::Wanted {
                    how: "words".to_owned(),
                    choices: Vec::new(),
                };
                let one = |id: &&str| Ask {
                    id: (*id).to_owned(),
                    wanted: id.starts_with("words").then(|| words.clone()),
                    rule: id.starts_with("rule").then(|| "a rule".to_owned()),
                    ..ask("x")
                };
                let open: Vec<Ask> = open.iter().map(one).collect();
                let expected = expected.map(|(id, verdict, why)| message::Command::Approval {
                    id: id.to_owned(),
                    verdict,
                    why: why.map(str::to_owned),
                });
                assert_eq!(word(line, &open), expected, "{line}");
            };
        check("y\n", &["aaa"], Some(("aaa", Approval::Approve, None)));
        check("Yes", &["aaa"], Some(("aaa", Approval::Approve, None)));
        check(
            "n not now",
            &["aaa"],
            Some(("aaa", Approval::Deny, Some("not now"))),
        );
        check("y but not that", &["aaa"], None);
        check("y", &["aaa", "bbb"], None);
        check(
            "/approve bbb",
            &["aaa", "bbb"],
            Some(("bbb", Approval::Approve, None)),
        );
        check("hello", &["aaa"], None);
        check("a", &["aaa"], None);
        check("c", &["aaa"], None);
        check("a", &["rule1"], Some(("rule1", Approval::Always, None)));
        check("c", &["rule1"], Some(("rule1", Approval::Session, None)));
        check("a", &["rule1", "rule2"], None);
        check("a little", &["rule1"], None);
        let approve = Approval::Approve;
        check(
            "Ada King",
            &["words1"],
            Some(("words1", approve, Some("Ada King"))),
        );
        check("y", &["words1"], Some(("words1", approve, None)));
        check("n", &["words1"], Some(("words1", Approval::Deny, None)));
        check("Ada King", &["words1", "aaa"], None);
    }

    #[test]
    fn a_question_is_shown_once() {
        let mut asks = Asks::default();
        let mut reply = Reply::new("x", control::replies::Status::Running);
        assert!(!asks.has_news(&reply) && !asks.are_open());
        reply.asks = vec![ask("one")];
        assert!(asks.has_news(&reply));
        asks.tell(&reply, false);
        assert!(!asks.has_news(&reply) && asks.are_open());
        reply.asks.push(Ask {
            id: "a00001".to_owned(),
            ..ask("two")
        });
        assert!(asks.has_news(&reply));
        reply.asks.clear();
        assert!(!asks.has_news(&reply) && !asks.are_open());
    }
}
