//! Questions on the terminal.

use std::io::{BufRead, Write};

use crate::app::cli::Failure;

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer<T> {
    Given(T),
    /// They want nothing of this step.
    Skipped,
    /// They want nothing any more: the input has ended.
    Ended,
}

/// Asks for a line; Enter alone is `usual`.
pub(super) fn line(question: &str, usual: &str) -> Result<Answer<String>, Failure> {
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
    if std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(failed)?
        == 0
    {
        return Ok(Answer::Ended);
    }
    Ok(read(&line, usual))
}

fn read(line: &str, usual: &str) -> Answer<String> {
    match line.trim() {
        "" if usual.is_empty() => Answer::Skipped,
        "" if usual == "s" => Answer::Skipped,
        "" => Answer::Given(usual.to_owned()),
        "s" | "skip" => Answer::Skipped,
        words => Answer::Given(words.to_owned()),
    }
}

/// Asks for yes or no.
pub(super) fn yes(question: &str, usual: bool) -> Result<Answer<bool>, Failure> {
    loop {
        let answer = match line(question, if usual { "Y/n" } else { "y/N" })? {
            Answer::Given(answer) => answer,
            Answer::Skipped => return Ok(Answer::Skipped),
            Answer::Ended => return Ok(Answer::Ended),
        };
        match answer.to_lowercase().as_str() {
            "y/n" => return Ok(Answer::Given(usual)),
            "y" | "yes" => return Ok(Answer::Given(true)),
            "n" | "no" => return Ok(Answer::Given(false)),
            _ => {}
        }
    }
}

/// Asks for one of `choices`, by its number or its name; Enter alone is the choice number `usual`.
pub(super) fn one_of(
    question: &str,
    choices: &[String],
    usual: usize,
) -> Result<Answer<usize>, Failure> {
    for (number, choice) in choices.iter().enumerate() {
        crate::app::cli::err(&format!("  {:>3}  {choice}", number + 1));
    }
    loop {
        let answer = match line(question, &(usual + 1).to_string())? {
            Answer::Given(answer) => answer,
            Answer::Skipped => return Ok(Answer::Skipped),
            Answer::Ended => return Ok(Answer::Ended),
        };
        match chosen(&answer, choices) {
            Some(at) => return Ok(Answer::Given(at)),
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
        choices
            .iter()
            .position(|choice| choice.eq_ignore_ascii_case(answer))
    };
    by_number.filter(|at| *at < choices.len()).or_else(by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_usual_or_skipped() {
        let given = |words: &str| Answer::Given(words.to_owned());
        assert_eq!(read("\n", "Y/n"), given("Y/n"));
        assert_eq!(read("no\n", "Y/n"), given("no"));
        assert_eq!(
            [read("\n", ""), read("\n", "s"), read(" s \n", "1")],
            [Answer::Skipped, Answer::Skipped, Answer::Skipped]
        );
    }

    #[test]
    fn a_choice_is_a_number_or_a_name() {
        let choices = ["Ollama".to_owned(), "gpt-4.1".to_owned()];
        let at = |answer: &str| chosen(answer, &choices);
        assert_eq!(
            [at("1"), at("2"), at("ollama"), at("gpt-4.1")],
            [Some(0), Some(1), Some(0), Some(1)]
        );
        assert_eq!([at("0"), at("3"), at("x")], [None; 3]);
    }
}
