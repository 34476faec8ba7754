//! What the speaker has promised or wants to be reminded of: "I'll send Bob the report by Friday".
//!
//! "I'll", "I must" and "I'm going to" promise something only with a day and a verb after which
//! something is done : "I'll be late tomorrow" is none. "Remind me to" and
//! "I promised to" need neither. What is not to be done is no promise, and one of two days no deadline.

use chrono::NaiveDateTime;

use super::calendar;
use super::calendar::Calendar;
use super::gate;
use super::gate::{has_hole, poisons};
use super::subject::{Role, USER, subject};
use super::vocabulary as v;
use super::when;
use super::when::Deadline;
use super::words::{Word, has_any, phrase_at, without_elision};
use super::{Sentence, Voice};

/// Something that somebody is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commitment {
    /// Who: `user`, a name, or `user's sister`.
    pub who: String,
    /// What, without the day: `send Bob the report`; the verb in its base form, at most 120 characters.
    pub what: String,
    /// By when, if that was said and is clear.
    pub deadline: Option<Deadline>,
    /// The line of the text where its sentence begins, from 0.
    pub line: u32,
    /// The sentence on one line, at most 300 characters.
    pub quote: String,
}

const MAX_CHARS: usize = 120;

/// How one promises in a language: phrases parted by `|`, words by spaces; `*` are one to five words.
struct Tongue {
    calendar: &'static Calendar,
    /// What comes is to be done, day or not.
    asked: &'static str,
    /// It is, when there is a day, whatever it is.
    about: &'static str,
    /// It is, when there is a day and one of `doing`.
    will: &'static str,
    /// Between an opener and what is to be done.
    fillers: &'static str,
    doing: &'static str,
    /// Between two promises.
    joints: &'static str,
    /// What follows says why or when.
    cuts: &'static str,
    /// With one of these nothing is promised.
    hedges: &'static str,
    /// How the verbs end that follow an opener, where they can be told by that.
    infinitives: &'static str,
    is_english: bool,
    /// The verb comes last: "den Bericht abgeben".
    verb_last: bool,
}

const TONGUES: [Tongue; 4] = [
    Tongue {
        calendar: &calendar::ENGLISH,
        asked: "remind me to|remind me * to|do not let me forget to|let me forget to|i promise to|i promise i will|i promise that i will|i promised to|i promised i would|i promised i will|i promised that i would|\
            i promised that i will|i promised * to|i promised * i would|i promised * i will|i promised * that i would|i have promised to|\
            i have promised * to|i have promised * i would|i must not forget to|i agreed to|i have agreed to|i committed to|\
            i have committed to|i pledged to|we promised to|we promised * to|we have promised to|we agreed to|we have agreed to",
        about: "remind me about|remind me of|remind me * about|remind me * of",
        will: "i will|i shall|i am going to|i am gonna|i must|i have to|i need to|i have got to|i got to|i gotta|we will|we are going to|we must|\
            we have to|we need to",
        fillers: "please|also|definitely|really|still|then|make sure to|be sure to|remember to|finally",
        doing: "send email e-mail mail call phone ring text message pay repay transfer bring buy book order submit file hand deliver finish complete prepare \
            write reply answer respond return renew cancel sign post fix repair clean collect fetch pick drop confirm register apply schedule \
            arrange invite print upload publish update water feed give lend draft ship invoice settle contact turn",
        joints: ", ; – and but so then",
        cuts: "so because when while where who which since if unless but though although otherwise please thanks thank ok okay",
        hedges: "lol|haha|hahaha|lmao|no way|yeah right|as if|in your dreams|will not|shall not|not going",
        infinitives: "",
        is_english: true,
        verb_last: false,
    },
    Tongue {
        calendar: &calendar::GERMAN,
        asked: "erinnere mich daran|erinner mich daran|erinnere mich * daran|erinner mich * daran|ich habe versprochen|ich hab versprochen|\
            ich habe * versprochen|ich hab * versprochen|ich darf nicht vergessen|ich habe zugesagt|\
            kannst du mich daran erinnern|kannst du mich * daran erinnern|könntest du mich * daran erinnern",
        about: "erinnere mich an|erinner mich an|erinnere mich * an|erinner mich * an",
        will: "ich muss|ich werde|ich soll|wir müssen|wir werden|muss ich|werde ich|soll ich|müssen wir|werden wir",
        fillers: "bitte|auch|noch|unbedingt|dann|daran|dran|,",
        doing: "schicken senden zuschicken zusenden mailen anrufen bezahlen zahlen überweisen bringen mitbringen vorbeibringen kaufen einkaufen besorgen \
            buchen bestellen abgeben einreichen liefern abliefern fertigmachen fertigstellen erledigen vorbereiten schreiben antworten beantworten \
            zurückgeben zurückzahlen zurückrufen zurückbringen verlängern kündigen absagen zusagen unterschreiben reparieren putzen abholen holen \
            bestätigen anmelden abmelden beantragen ausdrucken drucken hochladen aktualisieren gießen füttern geben leihen ausfüllen einladen",
        joints: ", ; – und aber",
        cuts: "weil damit denn wenn während aber sonst bitte danke sobald",
        hedges: "vielleicht|wenn|falls|eventuell|möglicherweise|wahrscheinlich|könnte|würde|ob|oder so|mal sehen|hoffentlich|angeblich|glaube|\
            kein|keine|keinen|spaß|sagt|sagte|meint|scherz",
        infinitives: "",
        is_english: false,
        verb_last: true,
    },
    Tongue {
        calendar: &calendar::SPANISH,
        asked: "recuérdame|recuerdame|prometí|he prometido|me comprometí a|le prometí a *|no me dejes olvidar",
        about: "",
        will: "tengo que|debo|necesito|voy a|vamos a|tenemos que",
        fillers: "por favor|también|,",
        doing: "enviar mandar enviarle mandarle llamar llamarle pagar comprar llevar traer reservar pedir entregar presentar terminar acabar preparar \
            escribir responder contestar devolver renovar cancelar firmar arreglar reparar limpiar recoger confirmar imprimir subir regar",
        joints: ", ; – y pero",
        cuts: "porque cuando mientras pero para gracias",
        hedges: "si|quizás|quizá|tal vez|a lo mejor|ojalá|igual|creo|no|broma|supongo|dice|dijo",
        infinitives: "ar er ir arle erle irle arme arse erse irse arlo arla",
        is_english: false,
        verb_last: false,
    },
    Tongue {
        calendar: &calendar::FRENCH,
        asked: "rappelle-moi de|rappelle moi de|rappelle-moi d'|rappelle moi d'|rappelle-moi * de|rappelle-moi * d'|je ai promis de|je ai promis d'|\
            je ai promis * de|je ai promis * d'|je ne dois pas oublier de|je ne dois pas oublier d'|je me suis engagé à|je me suis engagée à",
        about: "",
        will: "je dois|je vais|nous devons|on doit|on va",
        fillers: "s' il te plaît|aussi|absolument|encore|,",
        doing: "envoyer appeler rappeler payer acheter apporter ramener réserver commander rendre finir terminer préparer écrire répondre renouveler \
            annuler signer réparer nettoyer récupérer confirmer imprimer arroser déposer remettre virer",
        joints: ", ; – et mais",
        cuts: "parce car quand pendant mais merci sinon",
        hedges: "si|peut-être|sans doute|espère|je crois|blague|aimerais|éventuellement|dit",
        infinitives: "er ir re oir",
        is_english: false,
        verb_last: false,
    },
];

/// What follows the name of somebody else who promised.
const PROMISED: &str = "promised to|has promised to|'s promised to|promised me to|has promised me to|promised he would|promised she would|promised they would|\
    promised that he would|promised that she would|promised he will|promised she will";

/// With one of these nobody knows later what was meant; who asks to be reminded may say so all the same.
const VAGUE: &str = "it that this them those these him her something anything stuff me you your es ihn ihm sie dir dich mir lo te ça cela";

/// With one of these in it an opener asks for what was said: "remind me what I promised to do".
const QUESTIONS: &str = "what where who whom whose why how which when whether if that i we was wer wie wo warum wann dass ob que qui quand";

/// With one of these before or in it, what is said is the opposite of a promise.
const NEGATIONS: &str = "not never no nicht nie niemals kein keine keinen nunca ne n' pas jamais";

/// Where a promise begins, and how it is made.
struct Opening {
    who: String,
    /// Where what is to be done begins.
    end: usize,
    needs_day: bool,
    needs_doing: bool,
    /// The verb of "ich schicke", in its base form.
    verb: Option<String>,
}

/// Returns what `sentence` promises, said at `now`.
pub(super) fn read(sentence: &Sentence, words: &[Word], now: NaiveDateTime) -> Vec<Commitment> {
    // "Could you remind me to …?" asks, and means it.
    let polite = "can you please|could you please|would you please|can you|could you|would you|will you|please|pls|plz";
    let asked = polite
        .split('|')
        .find_map(|phrase| phrase_at(words, 0, phrase))
        .unwrap_or(0);
    let reminds = words.get(asked).is_some_and(|word| word.low == "remind");
    // "Don't let me forget to …" begins as a question would.
    let asked = if reminds {
        asked
    } else {
        phrase_at(words, 0, "do not let me forget to").map_or(0, |_| 2)
    };
    let german = |word: &Word| matches!(word.low.as_str(), "kannst" | "könntest");
    let text = if asked > 0 || words.first().is_some_and(german) {
        sentence.text.replace('?', ".")
    } else {
        sentence.text.clone()
    };
    let Some(statement) = gate::statement(
        &text.replace('!', "."),
        words.get(asked..).unwrap_or(&[]).to_vec(),
    ) else {
        return Vec::new();
    };
    let found = TONGUES.iter().map(|tongue| {
        let mut words = without_elision(&statement.words);
        // "Remember to call …": only what is wrapped may be a bare order.
        if statement.explicit && tongue.is_english {
            words.drain(..usize::from(words.first().is_some_and(|word| word.low == "to")));
        }
        Speaker {
            tongue,
            text: &sentence.text,
            words,
            explicit: statement.explicit,
            now,
        }
        .promises()
    });
    let found = found
        .into_iter()
        .find(|found| !found.is_empty())
        .unwrap_or_default();
    let whole = |(who, what, deadline)| Commitment {
        who,
        what,
        deadline,
        line: sentence.line,
        quote: sentence.quote.clone(),
    };
    found.into_iter().map(whole).collect()
}

/// The words of a statement in one language.
struct Speaker<'a> {
    tongue: &'static Tongue,
    text: &'a str,
    words: Vec<Word>,
    explicit: bool,
    now: NaiveDateTime,
}

impl Speaker<'_> {
    fn promises(&self) -> Vec<(String, String, Option<Deadline>)> {
        let (tongue, words) = (self.tongue, &self.words);
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let free = at == 0
                || words
                    .get(at - 1)
                    .is_some_and(|word| v::among(tongue.joints, &word.low));
            match free.then(|| self.opening(at)).flatten() {
                None => at += 1,
                Some((lead, opening)) => {
                    let end = self.read(at, lead, &opening, &mut found);
                    at = end.max(at + 1);
                }
            }
        }
        let every = |word: &Word| {
            tongue
                .calendar
                .every
                .split('|')
                .any(|every| every == word.low)
        };
        if !found.is_empty() && (has_any(words, tongue.hedges) || words.iter().any(every)) {
            found.clear();
        }
        found
    }

    /// Returns what a promise at `at` opens with, behind a day that may stand before it.
    fn opening(&self, at: usize) -> Option<(Option<Deadline>, Opening)> {
        let words = self.words.get(at..)?;
        let (mut start, mut lead) = (0, None);
        if let Some((end, deadline)) = when::at_start(words, self.tongue.calendar, self.now) {
            start = end + usize::from(words.get(end).is_some_and(|word| word.low == ","));
            lead = Some(deadline);
        }
        let opening = |who: &str, end: usize, needs_day, needs_doing| {
            Some(Opening {
                who: who.to_owned(),
                end: at + end,
                needs_day,
                needs_doing,
                verb: None,
            })
        };
        let tongue = self.tongue;
        let found = if let Some(end) = opened(words, start, tongue.asked) {
            opening(USER, end, false, false)
        } else if let Some(end) = opened(words, start, tongue.about) {
            opening(USER, end, true, false)
        } else if let Some(end) = opened(words, start, tongue.will) {
            opening(USER, end, true, true)
        } else if at == 0 && start == 0 && self.explicit && tongue.is_english {
            opening(USER, 0, true, true)
        } else if tongue.verb_last {
            self.present(at, start, lead.is_some())
        } else {
            None
        };
        let found = found.or_else(|| {
            let voice = Voice {
                first_person: true,
                about_user: false,
            };
            let (subject, next) =
                subject(words.get(start..)?, voice).filter(|_| tongue.is_english)?;
            let promised = opened(words, start + next, PROMISED)?;
            matches!(subject.role, Role::Other(_))
                .then(|| opening(&subject.entity, promised, false, false))
                .flatten()
        })?;
        Some((lead, found))
    }

    /// "Ich schicke Bob morgen den Bericht", "Morgen rufe ich Mama an".
    fn present(&self, at: usize, start: usize, led: bool) -> Option<Opening> {
        let words = self.words.get(at + start..)?;
        let low = |at: usize| words.get(at).map_or("", |word| word.low.as_str());
        let verb = match (low(0), low(1)) {
            ("ich", verb) => verb,
            (verb, "ich") if led => verb,
            _ => return None,
        };
        Some(Opening {
            who: USER.to_owned(),
            end: at + start + 2,
            needs_day: true,
            needs_doing: true,
            verb: Some(format!("{verb}n")),
        })
    }

    /// Reads one promise and returns where the next may begin.
    fn read(
        &self,
        at: usize,
        lead: Option<Deadline>,
        opening: &Opening,
        found: &mut Vec<(String, String, Option<Deadline>)>,
    ) -> usize {
        let tongue = self.tongue;
        let mut from = opening.end;
        while let Some(end) = tongue
            .fillers
            .split('|')
            .find_map(|filler| phrase_at(&self.words, from, filler))
        {
            from = end;
        }
        let joint = |at: &usize| {
            self.words
                .get(*at)
                .is_some_and(|word| v::among(tongue.joints, &word.low))
        };
        let next = (from..self.words.len()).find(|at| joint(at) && self.opening(at + 1).is_some());
        let end = next.unwrap_or(self.words.len());
        if when::wavers(
            self.words.get(at..end).unwrap_or(&[]),
            tongue.calendar,
            self.now,
        ) {
            return end + 1;
        }
        let rest = self.words.get(from..end).unwrap_or(&[]);
        let day = when::first(rest, tongue.calendar, self.now);
        // "Remind me tomorrow to …"
        let head = || {
            when::first(
                self.words.get(at..opening.end).unwrap_or(&[]),
                tongue.calendar,
                self.now,
            )
            .map(|(_, day)| day)
        };
        let deadline = day.as_ref().map(|(_, day)| *day).or(lead).or_else(head);
        let (first, second) = match &day {
            Some((range, _)) => (
                rest.get(..range.start).unwrap_or(&[]),
                rest.get(range.end..).unwrap_or(&[]),
            ),
            None => (rest, &[] as &[Word]),
        };
        let ends =
            |word: &Word| word.is_mark() && word.low != "," || v::among(tongue.cuts, &word.low);
        let first = first.split(ends).next().unwrap_or(&[]);
        // Behind the day a comma or "and" begins something else, unless nothing was said before it.
        let ends =
            |word: &Word| ends(word) || !first.is_empty() && (v::among(tongue.joints, &word.low));
        let second = second.split(ends).next().unwrap_or(&[]);
        if deadline.is_some() || !opening.needs_day {
            let what = self.what(first, second, opening, deadline.is_some());
            found.extend(what.map(|what| (opening.who.clone(), what, deadline)));
        }
        end + 1
    }

    /// What is to be done, from the words before the day and those behind it.
    fn what(
        &self,
        first: &[Word],
        second: &[Word],
        opening: &Opening,
        is_dated: bool,
    ) -> Option<String> {
        let tongue = self.tongue;
        let trimmed = |mut words: &[Word]| -> Vec<Word> {
            while let Some((_, rest)) = words.split_last().filter(|(last, _)| last.is_mark()) {
                words = rest;
            }
            let filler = |word: &Word| tongue.fillers.split('|').any(|filler| filler == word.low);
            words
                .iter()
                .skip_while(|word| word.is_mark() || filler(word))
                .cloned()
                .collect()
        };
        let mut parts = [trimmed(first), trimmed(second)];
        let mut verb_at_end = opening.verb.clone();
        if let Some(verb) = &mut verb_at_end {
            // "rufe … an"
            let last = parts.iter_mut().rev().find(|part| !part.is_empty())?;
            let prefix = last.last().map_or("", |word| word.low.as_str());
            if v::among(
                "an ab ein mit aus zurück vor fertig hoch vorbei auf zu",
                prefix,
            ) {
                *verb = format!("{prefix}{verb}");
                last.pop();
            }
        } else if tongue.verb_last && !opening.needs_day {
            // "… zu schicken", "… anzurufen"
            let last = parts.iter_mut().rev().find(|part| !part.is_empty())?;
            verb_at_end = Some(infinitive(last)?);
        }
        let all: Vec<&Word> = parts.iter().flatten().collect();
        let verb = match &verb_at_end {
            Some(verb) => verb.as_str(),
            None if tongue.verb_last && opening.needs_doing => all.last()?.low.as_str(),
            None => all.first()?.low.as_str(),
        };
        let done = v::among(tongue.doing, verb);
        let count =
            all.iter().filter(|word| !word.is_mark()).count() + usize::from(verb_at_end.is_some());
        if opening.needs_doing && (!done || count < 2)
            || v::among(NEGATIONS, verb)
            || verb == "always"
            || verb == "be" && !is_dated
        {
            return None;
        }
        if opening.needs_day && all.iter().any(|word| v::among(VAGUE, &word.low)) {
            return None;
        }
        // "… Bob nicht anzurufen": there it stands anywhere before the verb.
        if tongue.verb_last && all.iter().any(|word| v::among(NEGATIONS, &word.low)) {
            return None;
        }
        // "Recuérdame que …" is followed by no verb in its base form.
        let ends = |end: &str| verb.ends_with(end);
        if !tongue.infinitives.is_empty() && !tongue.infinitives.split(' ').any(ends) {
            return None;
        }
        let words: Vec<Word> = all.iter().map(|word| (*word).clone()).collect();
        if tongue.is_english && poisons(&words) {
            return None;
        }
        let slice = |words: &Vec<Word>| {
            Some(
                self.text
                    .get(words.first()?.start..words.last()?.end)?
                    .trim_end_matches('.')
                    .to_owned(),
            )
        };
        let what: Vec<String> = parts.iter().filter_map(slice).chain(verb_at_end).collect();
        let what = what.join(" ");
        let letters = what.chars().any(char::is_alphabetic);
        (letters && what.chars().count() <= MAX_CHARS && !has_hole(&what)).then_some(what)
    }
}

/// Takes the verb off the end of `words` and returns its base form.
fn infinitive(words: &mut Vec<Word>) -> Option<String> {
    let last = words.pop()?.low;
    if words.last().is_some_and(|word| word.low == "zu") {
        words.pop();
        return Some(last);
    }
    let prefixes = [
        "zurück", "vorbei", "fertig", "ab", "an", "auf", "aus", "ein", "hoch", "mit", "vor", "zu",
    ];
    prefixes.into_iter().find_map(|prefix| {
        last.strip_prefix(prefix)?
            .strip_prefix("zu")
            .map(|rest| format!("{prefix}{rest}"))
    })
}

/// Returns where one of `patterns` that stands at `at` ends.
fn opened(words: &[Word], at: usize, patterns: &str) -> Option<usize> {
    let matches = |pattern: &str| {
        let Some((before, behind)) = pattern.split_once('*') else {
            return phrase_at(words, at, pattern);
        };
        let from = phrase_at(words, at, before.trim_end())?;
        if behind.is_empty() {
            return words
                .get(from)
                .filter(|word| word.is_capital())
                .map(|_| from + 1);
        }
        (from + 1..from + 6).find_map(|at| {
            // "Remind me what I promised to do" asks, "Remind me not to call" forbids.
            let odd = |word: &Word| {
                word.is_mark()
                    || [QUESTIONS, NEGATIONS]
                        .iter()
                        .any(|list| v::among(list, &word.low))
            };
            let plain = !words.get(from..at)?.iter().any(odd);
            phrase_at(words, at, behind.trim_start()).filter(|_| plain)
        })
    };
    patterns
        .split('|')
        .filter(|pattern| !pattern.is_empty())
        .find_map(matches)
}
