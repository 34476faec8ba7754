//! Questions on the terminal.

use std::io::{BufRead, Write};

use crate::app::cli::Failure;
use crate::app::daemon::login::prompt;

/// Why a step ends before it is done.
#[derive(Debug)]
pub(super) enum Stop {
    /// They want nothing of this step.
    Skipped,
    /// They want nothing any more: the input has ended, or they interrupted a hidden question.
    Ended,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Asks for a line; Enter alone is `usual`.
pub(super) fn line(question: &str, usual: &str) -> Result<String, Stop> {
    let failed =
        |error: std::io::Error| Failure::io(format!("the terminal cannot be used: {error}"));
    let mut err = std::io::stderr();
    let shown = if usual.is_empty() {
        String::new()
    } else {
        format!(" [{usual}]")
    };
    write!(err, "  {question}{shown}: ")
        .and_then(|()| err.flush())
        .map_err(failed)?;
    let mut line = String::new();
    match std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(failed)?
    {
        0 => Err(Stop::Ended),
        _ => read(&line, usual).ok_or(Stop::Skipped),
    }
}

/// Asks for a line that is not shown; it is answered as any other.
pub(super) fn hidden(question: &str) -> Result<String, Stop> {
    match prompt::hidden(&format!("  {question} (it is not shown, Enter skips): "))? {
        None => Err(Stop::Ended),
        Some(typed) => read(&typed, "").ok_or(Stop::Skipped),
    }
}

/// Returns what was answered; `None` skips the step.
fn read(line: &str, usual: &str) -> Option<String> {
    match line.trim() {
        "" if usual.is_empty() || usual == "s" => None,
        "" => Some(usual.to_owned()),
        "s" | "skip" => None,
        words => Some(words.to_owned()),
    }
}

/// Asks for yes or no.
pub(super) fn yes(question: &str, usual: bool) -> Result<bool, Stop> {
    loop {
        let answer = line(question, if usual { "Y/n" } else { "y/N" })?;
        match answer.to_lowercase().as_str() {
            "y/n" => return Ok(usual),
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}

/// Asks for one of `choices`, by its number, its name or the first word of that; Enter alone is the choice number `usual`.
pub(super) fn one_of(question: &str, choices: &[String], usual: usize) -> Result<usize, Stop> {
    for (number, choice) in choices.iter().enumerate() {
        crate::app::cli::err(&format!("  {:>3}  {choice}", number + 1));
    }
    loop {
        let answer = line(question, &(usual + 1).to_string())?;
        match chosen(&answer, choices) {
            Some(at) => return Ok(at),
            None => crate::app::cli::err(&format!(
                "  no choice is called {}",
                crate::text::visible(&answer)
            )),
        }
    }
}

fn chosen(answer: &str, choices: &[String]) -> Option<usize> {
    let by_number = answer
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_sub(1));
    let by_name = || {
        choices.iter().position(|choice| {
            let first = choice.split(' ').next().unwrap_or_default();
            [choice.as_str(), first]
                .iter()
                .any(|name| name.eq_ignore_ascii_case(answer))
        })
    };
    by_number.filter(|at| *at < choices.len()).or_else(by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_usual_or_skipped() {
        let given = |words: &str| Some(words.to_owned());
        assert_eq!(read("\n", "Y/n"), given("Y/n"));
        assert_eq!(read("no\n", "Y/n"), given("no"));
        assert_eq!(
            [read("\n", ""), read("\n", "s"), read(" s \n", "1")],
            [None, None, None]
        );
    }

    #[test]
    fn a_choice_is_a_number_or_a_name() {
        let choices = ["Ollama".to_owned(), "openai (API key)".to_owned()];
        let at = |answer: &str| chosen(answer, &choices);
        assert_eq!(
            [at("1"), at("2"), at("ollama"), at("OpenAI")],
            [Some(0), Some(1), Some(0), Some(1)]
        );
        assert_eq!(at("openai (API key)"), Some(1));
        assert_eq!([at("0"), at("3"), at("x")], [None; 3]);
    }
}
