//! Questions of a server to the owner during a call (`elicitation/create`): a form of at most ten fields, its text for the
//! owner, and the parsing of the owner's answer. Pure.

use serde_json::{Map, Number, Value, json};

use crate::text;

/// Characters of the question, and of what is said of a field.
const MAX_MESSAGE: usize = 1000;
const MAX_WORDS: usize = 200;
const MAX_FIELDS: usize = 10;
/// Choices of a field; more cannot be read on a telephone.
const MAX_CHOICES: usize = 30;
/// Characters of a text that is filled in.
const MAX_TEXT: u64 = 2000;
/// What no server may ask for (specification of the protocol, elicitation, security). Whole or parts of words.
const SECRETS: [&str; 34] = [
    "password",
    "passwort",
    "kennwort",
    "contraseña",
    "mot de passe",
    "senha",
    "пароль",
    "密码",
    "パスワード",
    "passphrase",
    "passcode",
    "secret",
    "api key",
    "api-key",
    "apikey",
    "api_key",
    "token",
    "credential",
    "private key",
    "seed phrase",
    "credit card",
    "card number",
    "cvv",
    "cvc",
    "one-time code",
    "verification code",
    "login code",
    "security code",
    "access code",
    "pin code",
    "pincode",
    "pin number",
    "geheimzahl",
    "einmalcode",
];

/// Short words for such, which are parts of others: whole, in the name of a field or what is said of it; in the question
/// itself in capitals ("pin this note?" asks for nothing).
const SHORT_SECRETS: [&str; 6] = ["PIN", "TAN", "OTP", "TOTP", "2FA", "MFA"];

/// A question of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    message: String,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq)]
struct Field {
    name: String,
    title: String,
    words: String,
    kind: Kind,
    required: bool,
    default: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text {
        format: String,
        least: u64,
        most: u64,
    },
    Number {
        whole: bool,
        least: Option<f64>,
        most: Option<f64>,
    },
    /// What is sent, and how it is called.
    Choice(Vec<(Value, String)>),
}

/// The owner's answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Elicited {
    /// They answered; carries the fields.
    Accept(Map<String, Value>),
    /// They opened an address, or will.
    Opened,
    /// They said no.
    Decline,
    /// Nobody answered, or nobody is there.
    Cancel,
}

impl Elicited {
    pub(super) fn result(self) -> Value {
        match self {
            Self::Accept(content) => json!({"action": "accept", "content": content}),
            Self::Opened => json!({"action": "accept"}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}

impl Form {
    /// Reads a question.
    ///
    /// # Errors
    /// Why it cannot be asked, for the server.
    pub(super) fn read(params: &Value) -> Result<Self, String> {
        if params["mode"].as_str().is_some_and(|mode| mode != "form") {
            return Err("only forms and addresses are asked by this client".to_owned());
        }
        let schema = &params["requestedSchema"];
        let named = schema["properties"].as_object();
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let field = |(name, schema): (&String, &Value)| {
            Field::read(name, schema, required.contains(&name.as_str()))
        };
        let fields: Vec<Field> = named
            .into_iter()
            .flatten()
            .map(field)
            .collect::<Result<_, String>>()?;
        if fields.len() > MAX_FIELDS {
            return Err(format!("a form has at most {MAX_FIELDS} fields"));
        }
        let message = params["message"].as_str().unwrap_or_default().trim();
        Ok(Self {
            message: text::shorten(message, MAX_MESSAGE),
            fields,
        })
    }

    /// Returns the question for the owner: all text except the first line is the server's.
    pub fn text(&self, server: &str) -> String {
        let mut lines = vec![format!("the tool server {server} asks you:")];
        lines.extend(self.message.lines().map(str::to_owned));
        lines.extend(self.fields.iter().flat_map(Field::lines));
        lines.join("\n")
    }

    /// Returns how it is answered.
    pub fn how(&self) -> String {
        match self.fields.as_slice() {
            [] => crate::message::approval_reply::YES_OR_NO.to_owned(),
            [field] if field.is_choice() => format!("{}, by its name or #1, #2 …", field.name),
            [field] => field.name.clone(),
            fields => {
                let name = |field: &Field| format!("{}: …", field.name);
                format!("a line for each: {}", list(fields, name, "; "))
            }
        }
    }

    /// Returns the choices when it has one field, which is a choice.
    pub fn choices(&self) -> Vec<String> {
        match self.fields.as_slice() {
            [
                Field {
                    kind: Kind::Choice(choices),
                    ..
                },
            ] => choices.iter().map(|(_, label)| label.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the word by which it seems to ask for a secret.
    pub fn secret(&self) -> Option<&'static str> {
        let fields = self.fields.iter().flat_map(|field| {
            let Field {
                name, title, words, ..
            } = field;
            [name, title, words]
        });
        let said: Vec<String> = fields
            .chain([&self.message])
            .map(|words| folded(words))
            .collect();
        let named = said.len().saturating_sub(1);
        let is_short = |short: &&str| {
            let folded = folded(short);
            let mut fields = said.iter().take(named);
            let yours = format!("your {folded}");
            fields.any(|words| text::has_word(words, &folded))
                || text::has_word(&self.message, short)
                || said.iter().any(|words| text::has_word(words, &yours))
        };
        SECRETS
            .into_iter()
            .find(|secret| said.iter().any(|words| words.contains(secret)))
            .or_else(|| SHORT_SECRETS.into_iter().find(is_short))
    }

    /// Fills the form in from the owner's words: the value where one field is asked for, else `NAME: VALUE` on lines
    /// or between semicolons. What is left out has its default.
    ///
    /// # Errors
    /// What does not fit, for the owner.
    pub fn fill(&self, words: &str) -> Result<Map<String, Value>, String> {
        let mut given: Vec<Option<&str>> = vec![None; self.fields.len()];
        if let [_] = self.fields.as_slice() {
            let part = self.named(words).map_or(words, |(_, value)| value);
            given[0] = Some(part.trim()).filter(|part| !part.is_empty());
        } else {
            let parts = words.split(['\n', ';']).map(str::trim);
            for part in parts.filter(|part| !part.is_empty()) {
                let (at, value) = self
                    .named(part)
                    .ok_or_else(|| format!("{part:?} names no field: {}", self.how()))?;
                given[at] = Some(value);
            }
        }
        let mut content = Map::new();
        for (field, given) in self.fields.iter().zip(given) {
            let value = match given {
                Some(words) => Some(field.value(words)?),
                None => field.default.clone(),
            };
            match value {
                Some(value) => drop(content.insert(field.name.clone(), value)),
                None if field.required => return Err(format!("{} is missing", field.name)),
                None => {}
            }
        }
        Ok(content)
    }

    /// Returns which field `NAME: VALUE` names, and the value.
    fn named<'a>(&self, part: &'a str) -> Option<(usize, &'a str)> {
        let (name, value) = part.split_once([':', '='])?;
        let name = folded(name.trim());
        let is_it = |field: &Field| folded(&field.name) == name || folded(&field.title) == name;
        let at = self.fields.iter().position(is_it)?;
        Some((at, value.trim()))
    }
}

impl Field {
    fn read(name: &str, schema: &Value, required: bool) -> Result<Self, String> {
        let word = |key: &str| text::shorten(schema[key].as_str().unwrap_or_default(), MAX_WORDS);
        if name.is_empty() || name.chars().count() > 64 {
            return Err("the name of a field has 1 to 64 characters".to_owned());
        }
        let kind = match (choices(schema), schema["type"].as_str()) {
            (Some(choices), _) => Kind::Choice(choices?),
            (None, Some("boolean")) => Kind::Choice(vec![
                (true.into(), "yes".to_owned()),
                (false.into(), "no".to_owned()),
            ]),
            (None, Some(kind @ ("number" | "integer"))) => Kind::Number {
                whole: kind == "integer",
                least: schema["minimum"].as_f64(),
                most: schema["maximum"].as_f64(),
            },
            (None, Some("string")) => Kind::Text {
                format: word("format"),
                least: schema["minLength"].as_u64().unwrap_or_default(),
                most: schema["maxLength"]
                    .as_u64()
                    .unwrap_or(MAX_TEXT)
                    .min(MAX_TEXT),
            },
            _ => {
                return Err(format!(
                    "the field {name:?} is no text, number, yes or choice"
                ));
            }
        };
        Ok(Self {
            name: name.to_owned(),
            title: word("title"),
            words: word("description"),
            kind,
            required,
            default: schema
                .get("default")
                .filter(|value| !value.is_null())
                .cloned(),
        })
    }

    fn is_choice(&self) -> bool {
        matches!(self.kind, Kind::Choice(_))
    }

    fn lines(&self) -> Vec<String> {
        let kind = match &self.kind {
            Kind::Text { format, .. } if !format.is_empty() => format.clone(),
            Kind::Text { .. } => "text".to_owned(),
            Kind::Number { whole: true, .. } => "whole number".to_owned(),
            Kind::Number { .. } => "number".to_owned(),
            Kind::Choice(_) => "one of these".to_owned(),
        };
        let may = if self.required {
            ""
        } else {
            ", may be left out"
        };
        let default = match &self.default {
            Some(Value::String(words)) => format!(", else {}", text::shorten(words, MAX_WORDS)),
            Some(value) => format!(", else {}", text::shorten(&value.to_string(), MAX_WORDS)),
            None => String::new(),
        };
        let about: Vec<&str> = [self.title.as_str(), self.words.as_str()]
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect();
        let about = match about.is_empty() {
            true => String::new(),
            false => format!(": {}", text::one_line(&about.join(". "))),
        };
        let mut lines = vec![format!(
            "- {} ({kind}{may}{default}){about}",
            text::one_line(&self.name)
        )];
        if let Kind::Choice(choices) = &self.kind {
            let choice = |(at, (_, label)): (usize, &(Value, String))| format!("  #{at} {label}");
            lines.extend((1..).zip(choices).map(choice));
        }
        lines
    }

    fn value(&self, words: &str) -> Result<Value, String> {
        let name = &self.name;
        match &self.kind {
            Kind::Text {
                format,
                least,
                most,
            } => {
                let count = u64::try_from(words.chars().count()).unwrap_or(u64::MAX);
                if count < *least || count > *most {
                    return Err(format!("{name} has {least} to {most} characters"));
                }
                if !has_format(words, format) {
                    return Err(format!("{name} is no {format}: {words:?}"));
                }
                Ok(words.into())
            }
            Kind::Number { whole, least, most } => {
                let number: f64 = words
                    .replace(',', ".")
                    .parse()
                    .ok()
                    .filter(|number: &f64| number.is_finite())
                    .ok_or_else(|| format!("{name} is no number: {words:?}"))?;
                if least.is_some_and(|least| number < least)
                    || most.is_some_and(|most| number > most)
                {
                    let bound =
                        |bound: &Option<f64>| bound.map_or("…".to_owned(), |n| n.to_string());
                    return Err(format!(
                        "{name} is from {} to {}",
                        bound(least),
                        bound(most)
                    ));
                }
                if *whole {
                    let number: i64 = words
                        .parse()
                        .map_err(|_| format!("{name} is no whole number: {words:?}"))?;
                    return Ok(number.into());
                }
                Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
            }
            Kind::Choice(choices) => {
                let at = words
                    .strip_prefix('#')
                    .and_then(|at| at.parse::<usize>().ok());
                let by_number = at.and_then(|at| choices.get(at.checked_sub(1)?));
                let said = folded(words);
                let is_it = |(value, label): &&(Value, String)| {
                    folded(label) == said || value.as_str().is_some_and(|v| folded(v) == said)
                };
                let short = |(_, label): &&(Value, String)| {
                    self.is_flag()
                        && ["y", "n"].contains(&said.as_str())
                        && label.starts_with(&said)
                };
                let found = by_number
                    .or_else(|| choices.iter().find(is_it))
                    .or_else(|| choices.iter().find(short));
                found.map(|(value, _)| value.clone()).ok_or_else(|| {
                    let label = |(_, label): &(Value, String)| label.clone();
                    format!("{name} is one of {}", list(choices, label, ", "))
                })
            }
        }
    }

    fn is_flag(&self) -> bool {
        matches!(&self.kind, Kind::Choice(choices) if matches!(choices.first(), Some((Value::Bool(_), _))))
    }
}

/// Returns the choices of a field, in the ways in which versions of the protocol write them; `None` when it is none.
fn choices(schema: &Value) -> Option<Result<Vec<(Value, String)>, String>> {
    let label = |words: &str| text::one_line(&text::shorten(words, 60));
    let found: Vec<(Value, String)> = if let Some(values) = schema["enum"].as_array() {
        let names = &schema["enumNames"];
        let one = |(at, value): (usize, &Value)| {
            let value = value.as_str()?;
            let name = names[at].as_str().unwrap_or(value);
            Some((value.into(), label(name)))
        };
        values.iter().enumerate().filter_map(one).collect()
    } else {
        let values = schema["oneOf"].as_array()?;
        let one = |value: &Value| {
            let of = value["const"].as_str()?;
            Some((of.into(), label(value["title"].as_str().unwrap_or(of))))
        };
        values.iter().filter_map(one).collect()
    };
    Some(match found.len() {
        1..=MAX_CHOICES => Ok(found),
        _ => Err(format!(
            "a field has 1 to {MAX_CHOICES} choices, which are texts"
        )),
    })
}

/// The formats that the protocol names.
fn has_format(words: &str, format: &str) -> bool {
    match format {
        "email" => words.split_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && host.contains('.') && !words.contains(char::is_whitespace)
        }),
        "uri" => reqwest::Url::parse(words).is_ok(),
        "date" => words.parse::<chrono::NaiveDate>().is_ok(),
        "date-time" => crate::clock::parse_rfc3339(words).is_some(),
        _ => true,
    }
}

fn folded(words: &str) -> String {
    words.to_lowercase()
}

fn list<T>(all: &[T], one: impl Fn(&T) -> String, between: &str) -> String {
    all.iter().map(one).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: &Value, required: &Value) -> Form {
        let params = json!({"message": "Who are you?", "requestedSchema": {"type": "object", "properties": properties, "required": required}});
        Form::read(&params).expect("a form")
    }

    #[test]
    fn a_form_is_shown_with_all_that_it_asks() {
        let form = form(
            &json!({
                "name": {"type": "string", "title": "Name", "description": "Your\nname"},
                "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"], "default": "r"},
                "age": {"type": "integer"}
            }),
            &json!(["name"]),
        );
        assert_eq!(
            form.text("desk"),
            "the tool server desk asks you:\nWho are you?\n- name (text): Name. Your name\n\
             - color (one of these, may be left out, else r)\n  #1 Red\n  #2 Green\n- age (whole number, may be left out)"
        );
        assert_eq!(form.how(), "a line for each: name: …; color: …; age: …");
        assert_eq!(form.choices(), Vec::<String>::new());
    }

    #[test]
    fn words_fill_a_form_in_or_are_told_why_not() {
        let many = form(
            &json!({
                "name": {"type": "string", "maxLength": 5},
                "color": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}], "default": "r"},
                "age": {"type": "integer", "minimum": 18},
                "ok": {"type": "boolean"}
            }),
            &json!(["name"]),
        );
        for (words, expected) in [
            (
                "name: Ada\nage = 36; OK: y",
                Ok(json!({"name": "Ada", "color": "r", "age": 36, "ok": true})),
            ),
            (
                "Name: Ada; color: GREEN",
                Ok(json!({"name": "Ada", "color": "g"})),
            ),
            (
                "name: Ada; color: #2",
                Ok(json!({"name": "Ada", "color": "g"})),
            ),
            ("name: Ada; color: blue", Err("color is one of Red, Green")),
            ("name: Adalbert", Err("name has 0 to 5 characters")),
            ("name: Ada; age: 17", Err("age is from 18 to …")),
            (
                "name: Ada; age: 18.5",
                Err("age is no whole number: \"18.5\""),
            ),
            ("age: 20", Err("name is missing")),
            (
                "Ada",
                Err("\"Ada\" names no field: a line for each: name: …; color: …; age: …; ok: …"),
            ),
        ] {
            let filled = many.fill(words).map(Value::Object);
            assert_eq!(filled, expected.map_err(str::to_owned), "{words}");
        }
        let one = form(
            &json!({"mail": {"type": "string", "format": "email"}}),
            &json!(["mail"]),
        );
        assert_eq!(
            one.fill("a@b.example").map(Value::Object),
            Ok(json!({"mail": "a@b.example"}))
        );
        assert_eq!(
            one.fill("mail: a@b.example").map(Value::Object),
            Ok(json!({"mail": "a@b.example"}))
        );
        assert!(one.fill("a b").is_err() && one.fill("").is_err());
        let text = form(&json!({"note": {"type": "string"}}), &json!([]));
        assert_eq!(
            text.fill("at: five; or six\nmaybe").map(Value::Object),
            Ok(json!({"note": "at: five; or six\nmaybe"}))
        );
        assert_eq!(text.fill("").map(Value::Object), Ok(json!({})));
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let read = |schema: Value| {
            Form::read(&json!({"message": "m", "requestedSchema": schema})).is_err()
        };
        let of = |field: Value| json!({"type": "object", "properties": {"a": field}});
        assert!(read(of(json!({"type": "object", "properties": {}}))));
        assert!(read(of(json!({"type": "array", "items": {"enum": ["x"]}}))));
        assert!(read(of(json!({"type": "string", "enum": []}))));
        let eleven: Map<String, Value> = (0..11)
            .map(|n| (format!("f{n}"), json!({"type": "string"})))
            .collect();
        assert!(read(json!({"type": "object", "properties": eleven})));
        assert!(Form::read(&json!({"mode": "url", "url": "https://a.example"})).is_err());
        let bare = Form::read(&json!({"message": "Go on?"})).expect("a form");
        assert_eq!(
            (bare.how().as_str(), bare.fill("").map(Value::Object)),
            ("Yes or No", Ok(json!({})))
        );
    }

    #[test]
    fn a_question_for_a_secret_is_noticed_wherever_it_says_so() {
        let secret = |message: &str, name: &str, words: &str| {
            Form::read(&json!({"message": message, "requestedSchema": {"properties": {name: {"type": "string", "description": words}}}}))
                .expect("a form")
                .secret()
        };
        assert_eq!(secret("Your PASSWORD please", "a", ""), Some("password"));
        assert_eq!(secret("Log in", "api_key", ""), Some("api_key"));
        assert_eq!(secret("Log in", "a", "Ihr Kennwort"), Some("kennwort"));
        assert_eq!(secret("Which city?", "city", "Where you live"), None);
        for (message, name, words, found) in [
            ("Confirm", "pin", "", "PIN"),
            ("Confirm", "code", "The TAN of your bank", "TAN"),
            ("Confirm", "card_otp", "", "OTP"),
            ("Enter the PIN of the door", "code", "", "PIN"),
            ("Please tell me your pin", "code", "", "PIN"),
            ("Your passcode?", "code", "", "passcode"),
            ("What is the security code?", "code", "", "security code"),
        ] {
            assert_eq!(
                secret(message, name, words),
                Some(found),
                "{message} {name}"
            );
        }
        assert_eq!(secret("Pin this opinion, stan?", "a", "of shipping"), None);
    }
}
