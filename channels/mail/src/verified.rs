//! The verified sender of a mail: only by the results of the receiving server (Authentication-Results, RFC 8601).
//!
//! Anybody can write such a header. The server puts its own above all headers of the mail, so of those with its name only the
//! first counts. Its results must match the single address in From: a DMARC pass for its domain; or, if the domain has no
//! DMARC policy, a DKIM signature or an SPF pass of that domain or a parent domain; or a user of the server, authenticated as
//! exactly this address, submitted the mail. A mail that is verified only by its signature may come from anybody who has a
//! copy, so the signature must cover everything that matters ([`signed`]).

use crate::signed;

/// Returns the address in From that stands for a person: exactly one, in the plain form that no two programs read
/// differently. `None` otherwise.
pub fn author(headers: &[(&str, &str)], parsed: &[String]) -> Option<String> {
    let mut values = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("from"));
    let (_, value) = values.next()?;
    let ([address], None) = (parsed, values.next()) else {
        return None;
    };
    let raw = unfolded(value).to_lowercase();
    let raw = raw.trim();
    // `ada@example.org`, `Ada <ada@example.org>`: not `<ada@example.org> <eve@example.com>`, nor a comment that one
    // program takes for the address and another does not.
    let in_brackets = raw
        .strip_suffix(&format!("<{address}>"))
        .is_some_and(|name| !name.contains(['<', '>', '\0']));
    let is_address = address.matches('@').count() == 1
        && !address
            .contains(|c: char| c.is_whitespace() || c.is_control() || "<>(),;:\"\\".contains(c));
    (is_address && (in_brackets || raw == address)).then(|| address.clone())
}

/// Returns whether the receiving server `authserv_id` vouches that the mail came from `author`; otherwise why not.
pub fn vouched(headers: &[(&str, &str)], author: &str, authserv_id: &str) -> Result<(), String> {
    let (_, domain) = author
        .rsplit_once('@')
        .ok_or_else(|| "From has no address".to_owned())?;
    let results = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("authentication-results"))
        .filter_map(|(_, value)| Results::parse(value))
        .find(|results| results.server == authserv_id);
    let Some(results) = results else {
        return Err(format!(
            "there are no Authentication-Results of {authserv_id}"
        ));
    };
    let Some(methods) = results.methods else {
        return Err(format!(
            "the Authentication-Results of {authserv_id} are not understood"
        ));
    };
    let of = |name: &'static str| methods.iter().filter(move |method| method.name == name);
    let dmarc: Vec<&Method> = of("dmarc").collect();
    let has_dmarc = match dmarc.as_slice() {
        [one] if one.result == "pass" => {
            let is_same = |from| domain_of(from) == domain;
            if !one.value("header.from").is_some_and(is_same) {
                return Err("DMARC passed for another domain".to_owned());
            }
            true
        }
        // The domain says nothing on DMARC.
        [] => false,
        [one] if one.result == "none" => false,
        _ => return Err("DMARC did not pass".to_owned()),
    };
    let sent = of("spf").any(|one| {
        let sender = one
            .value("smtp.mailfrom")
            .or_else(|| one.value("smtp.mail"));
        one.result == "pass" && sender.is_some_and(|sender| is_above(domain_of(sender), domain))
    });
    let handed_in = of("auth").any(|one| {
        one.result == "pass" && one.value("smtp.auth").is_some_and(|user| user == author)
    });
    // It came from the domain itself, so that nobody else had it before.
    if sent || handed_in {
        return Ok(());
    }
    let signed = of("dkim").any(|one| {
        let signer = one.value("header.d").or_else(|| one.value("header.i"));
        one.result == "pass" && signer.is_some_and(|signer| is_above(domain_of(signer), domain))
    });
    if !signed && !has_dmarc {
        return Err("neither DMARC, DKIM nor SPF passed for the domain in From".to_owned());
    }
    // The server may leave out what DMARC passed by: without a signature it was the server that sent the mail.
    if signed::covering(headers, domain)? == 0 && signed {
        return Err("the DKIM signature that passed is not in the mail".to_owned());
    }
    Ok(())
}

/// Returns what the server `authserv_id` left out of a mail that [`vouched`] may need, whoever wrote it; `None` when it says
/// all it should.
pub fn lacking(headers: &[(&str, &str)], authserv_id: &str) -> Option<String> {
    let named = |name: &'static str| {
        headers
            .iter()
            .filter(move |(own, _)| own.eq_ignore_ascii_case(name))
    };
    let mut all = named("authentication-results")
        .filter_map(|(_, value)| Results::parse(value))
        .filter(|results| results.server == authserv_id);
    let says = |results: &Results, names: &[&str]| {
        let mut methods = results.methods.iter().flatten();
        methods.any(|method| names.contains(&method.name.as_str()))
    };
    let Some(first) = all.next() else {
        return Some(format!("it has no Authentication-Results of {authserv_id}"));
    };
    // A user of the server's own needs no SPF.
    if says(&first, &["spf", "auth"]) {
        return None;
    }
    let is_apart =
        named("received-spf").next().is_some() || all.any(|results| says(&results, &["spf"]));
    let apart = if is_apart {
        "; it is in a separate header, which is not read"
    } else {
        ""
    };
    Some(format!(
        "the topmost Authentication-Results of {authserv_id} has no SPF result{apart}: senders whose provider's signature does not cover To (Outlook, iCloud) remain unverified"
    ))
}

/// Returns the names of servers in Authentication-Results, the first first.
pub fn servers(headers: &[(&str, &str)]) -> Vec<String> {
    let all = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("authentication-results"));
    all.filter_map(|(_, value)| Results::parse(value))
        .map(|results| results.server)
        .collect()
}

/// Returns true when `parent` is `domain` or one that it lies in: whoever has the parent has the domain. Not the other way
/// round, because below some domains everybody may have one.
fn is_above(parent: &str, domain: &str) -> bool {
    parent == domain
        || (parent.contains('.')
            && domain
                .strip_suffix(parent)
                .is_some_and(|rest| rest.ends_with('.')))
}

fn domain_of(value: &str) -> &str {
    value.rsplit('@').next().unwrap_or(value)
}

/// One header.
struct Results {
    /// Who wrote it.
    server: String,
    /// What it says; `None` when it can be read in more than one way.
    methods: Option<Vec<Method>>,
}

/// `dkim=pass header.d=example.org`
struct Method {
    name: String,
    result: String,
    values: Vec<(String, String)>,
}

impl Method {
    fn value(&self, name: &str) -> Option<&str> {
        let mut found = self.values.iter().filter(|(own, _)| own == name);
        let (_, value) = found.next()?;
        // Twice the same property is nothing to rely on.
        found.next().is_none().then_some(value.as_str())
    }
}

impl Results {
    fn parse(value: &str) -> Option<Self> {
        let Some(parts) = split(&unfolded(value)) else {
            // The name is needed all the same: what cannot be read is still the server's own and hides those below.
            let server = value
                .trim_start()
                .split([';', ' ', '\t', '\r', '\n'])
                .next()?;
            return Some(Self {
                server: server.to_ascii_lowercase(),
                methods: None,
            });
        };
        let (first, rest) = parts.split_first()?;
        // A version may follow the name.
        let server = first.first()?.to_ascii_lowercase();
        let methods = rest.iter().filter_map(|words| Method::parse(words));
        Some(Self {
            server,
            methods: Some(methods.collect()),
        })
    }
}

impl Method {
    fn parse(words: &[String]) -> Option<Self> {
        let (first, rest) = words.split_first()?;
        let (name, result) = first.split_once('=')?;
        // A version may follow the name of the method.
        let name = name.split('/').next().unwrap_or(name);
        let pair = |word: &String| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_ascii_lowercase(), value.to_lowercase()))
        };
        Some(Self {
            name: name.to_ascii_lowercase(),
            result: result.to_ascii_lowercase(),
            values: rest.iter().filter_map(pair).collect(),
        })
    }
}

/// Cuts a value at its semicolons and spaces, without comments, and with nothing around `=`. `None` when a comment or a
/// quoted text does not end, or a quoted text holds a semicolon: a sender may have written it to be read otherwise.
fn split(value: &str) -> Option<Vec<Vec<String>>> {
    let mut parts = vec![Vec::new()];
    let mut word = String::new();
    let mut comments = 0_usize;
    let mut quoted = false;
    // A space was seen after the word: it ends, unless `=` follows.
    let mut ended = false;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if comments > 0 {
            match c {
                '(' => comments += 1,
                ')' => comments -= 1,
                '\\' => drop(chars.next()),
                _ => {}
            }
            continue;
        }
        if quoted {
            match c {
                '"' => quoted = false,
                ';' => return None,
                '\\' => word.extend(chars.next()),
                c => word.push(c),
            }
            continue;
        }
        match c {
            '(' => (comments, ended) = (1, true),
            ')' => return None,
            ';' => {
                finish(&mut parts, &mut word);
                parts.push(Vec::new());
                ended = false;
            }
            c if c.is_whitespace() => ended = true,
            c => {
                if ended && c != '=' && !word.ends_with('=') {
                    finish(&mut parts, &mut word);
                }
                ended = false;
                if c == '"' {
                    quoted = true;
                } else {
                    word.push(c);
                }
            }
        }
    }
    finish(&mut parts, &mut word);
    (comments == 0 && !quoted).then_some(parts)
}

fn finish(parts: &mut [Vec<String>], word: &mut String) {
    if let Some(last) = parts.last_mut().filter(|_| !word.is_empty()) {
        last.push(std::mem::take(word));
    }
}

fn unfolded(value: &str) -> String {
    value.replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AR: &str = "Authentication-Results";
    const SIGNATURE: &str = "v=1; d=example.org; s=s1; h=from:to:cc:subject:date; bh=x; b=y";

    fn ada(results: &[&str]) -> bool {
        by(results, &[SIGNATURE])
    }

    fn by(results: &[&str], signatures: &[&str]) -> bool {
        let mut headers: Vec<(&str, &str)> = results.iter().map(|value| (AR, *value)).collect();
        headers.extend(signatures.iter().map(|value| ("DKIM-Signature", *value)));
        headers.extend(["From", "To", "Subject", "Date"].map(|name| (name, "x")));
        vouched(&headers, "ada@example.org", "mx.home.net").is_ok()
    }

    #[test]
    fn what_real_servers_write_is_understood() {
        for good in [
            // Gmail's form
            "mx.home.net;\r\n       dkim=pass header.i=@example.org header.s=s1 header.b=\"abc/+=\";\r\n       spf=pass (mx: domain of ada@example.org designates 1.2.3.4 as permitted sender) smtp.mailfrom=ada@example.org;\r\n       dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=example.org",
            // opendmarc's
            " mx.home.net; dmarc=pass (p=none dis=none) header.from=example.org",
            // rspamd's
            "mx.home.net;\n\tdkim=pass header.d=example.org header.s=mail header.b=Xy;\n\tdmarc=none;\n\tspf=softfail",
            "MX.Home.NET 1; spf=pass smtp.mailfrom=bounce@example.org",
            "mx.home.net; dkim = pass (2048-bit key; unprotected) header.d = example.org",
            "mx.home.net; dkim=fail header.d=example.org; dkim/1=PASS header.d=EXAMPLE.ORG",
            "mx.home.net; auth=pass smtp.auth=ada@example.org smtp.mailfrom=ada@example.org",
        ] {
            assert!(ada(&[good]), "{good}");
        }
    }

    #[test]
    fn nothing_less_than_the_servers_word_for_the_very_domain_counts() {
        for bad in [
            "",
            "mx.home.net",
            "mx.home.net; none",
            "other.net; dmarc=pass header.from=example.org",
            "mx.home.net.evil.com; dmarc=pass header.from=example.org",
            "mx.home.net; dmarc=fail header.from=example.org; dkim=pass header.d=example.org",
            "mx.home.net; dmarc=temperror header.from=example.org; spf=pass smtp.mailfrom=example.org",
            "mx.home.net; dmarc=bestguesspass header.from=example.org",
            "mx.home.net; dmarc=pass header.from=evil.com",
            "mx.home.net; dmarc=pass",
            "mx.home.net; dmarc=pass header.from=example.org; dmarc=fail header.from=example.org",
            "mx.home.net; dmarc=pass header.from=example.org header.from=evil.com",
            "mx.home.net; dkim=pass header.d=evil.com",
            "mx.home.net; dkim=pass header.d=org",
            "mx.home.net; dkim=pass header.d=mail.example.org",
            "mx.home.net; dkim=pass header.d=badexample.org",
            "mx.home.net; dkim=pass",
            "mx.home.net; dkim=neutral header.d=example.org",
            "mx.home.net; spf=pass smtp.helo=example.org",
            "mx.home.net; spf=pass smtp.mailfrom=evil.com",
            "mx.home.net; auth=pass smtp.auth=eve@example.org smtp.mailfrom=ada@example.org",
            "mx.home.net; spf=pass (dmarc=pass header.from=example.org) smtp.mailfrom=evil.com",
            "mx.home.net; spf=pass smtp.mailfrom=\"x; dmarc=pass header.from=example.org \"@evil.com",
            "mx.home.net; spf=pass (domain of a) dmarc=pass header.from=example.org ( designates) smtp.mailfrom=evil.com",
            "mx.home.net; spf=pass (unbalanced smtp.mailfrom=example.org",
        ] {
            assert!(!ada(&[bad]), "{bad}");
        }
    }

    #[test]
    fn what_rests_on_a_signature_counts_when_that_covers_all() {
        let open = format!("{SIGNATURE}; l=10");
        let open = open.as_str();
        let (dmarc, dkim, spf) = (
            "mx.home.net; dmarc=pass header.from=example.org",
            "mx.home.net; dmarc=pass header.from=example.org; dkim=pass header.i=@example.org",
            "mx.home.net; dmarc=pass header.from=example.org; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=ada@example.org",
        );
        let none = "mx.home.net; dkim=pass header.d=example.org";
        for results in [dmarc, dkim, none] {
            assert!(by(&[results], &[SIGNATURE]), "{results}");
            assert!(!by(&[results], &[open]), "{results}");
            assert!(!by(&[results], &[SIGNATURE, open]), "{results}");
        }
        // Whoever sent it signed it: nobody else had it in between.
        assert!(by(&[spf], &[open]) && by(&[dmarc], &[]));
        assert!(!by(&[dkim], &[]) && !by(&[none], &[]));
    }

    #[test]
    fn what_a_server_leaves_out_is_named() {
        let lacks = |headers: &[(&str, &str)]| lacking(headers, "mx.home.net").unwrap_or_default();
        let (dmarc, spf) = (
            "mx.home.net; dmarc=pass header.from=example.org",
            "mx.home.net; spf=pass smtp.mailfrom=ada@example.org",
        );
        let both = "mx.home.net; dmarc=pass header.from=example.org; spf=none";
        let user = "mx.home.net; auth=pass smtp.auth=ada@example.org";
        for whole in [spf, both, user] {
            assert_eq!(lacks(&[(AR, whole), (AR, dmarc)]), "");
        }
        let nothing = lacks(&[(AR, "other.net; spf=pass smtp.mailfrom=example.org")]);
        assert_eq!(nothing, "it has no Authentication-Results of mx.home.net");
        let silent = lacks(&[(AR, dmarc), (AR, "other.net; spf=pass")]);
        assert!(silent.contains("has no SPF result: "), "{silent}");
        for apart in [(AR, spf), ("Received-SPF", "pass (mx.home.net: x)")] {
            let told = lacks(&[(AR, dmarc), apart]);
            assert!(told.contains("in a separate header"), "{told}");
        }
        assert!(lacks(&[(AR, "mx.home.net; (")]).contains("has no SPF result"));
    }

    #[test]
    fn of_the_servers_name_only_the_first_counts_and_others_do_not() {
        let (good, bad) = (
            "mx.home.net; dmarc=pass header.from=example.org",
            "mx.home.net; dmarc=fail header.from=example.org",
        );
        assert!(ada(&[good, bad]) && !ada(&[bad, good]));
        assert!(
            !ada(&["mx.home.net; (", good]),
            "what cannot be read hides what is below"
        );
        assert!(ada(&["relay.net; dmarc=fail", good]));
        assert!(!ada(&[]));
    }

    #[test]
    fn from_is_one_address_in_a_form_that_all_programs_read_alike() {
        let of = |values: &[&str], parsed: &[&str]| {
            let headers: Vec<(&str, &str)> = values.iter().map(|value| ("From", *value)).collect();
            let parsed: Vec<String> = parsed.iter().map(|&one| one.to_owned()).collect();
            author(&headers, &parsed)
        };
        let ada = Some("ada@example.org".to_owned());
        for good in [
            " ada@example.org\r\n",
            "<ada@example.org>",
            "Ada\r\n <Ada@Example.org>",
            "\"Ada (home)\" <ada@example.org>",
        ] {
            assert_eq!(of(&[good], &["ada@example.org"]), ada, "{good}");
        }
        for bad in [
            "<ada@example.org> <eve@evil.com>",
            "ada@example.org (x) <eve@evil.com>, ",
            "eve@evil.com (<ada@example.org>)",
            "\"ada@example.org\" eve@evil.com",
            "group: ada@example.org;",
        ] {
            assert_eq!(of(&[bad], &["ada@example.org"]), None, "{bad}");
        }
        assert_eq!(
            of(&["ada@example.org", "eve@evil.com"], &["ada@example.org"]),
            None
        );
        assert_eq!(of(&["a@b.c, d@e.f"], &["a@b.c", "d@e.f"]), None);
        assert_eq!(of(&[], &[]), None);
    }
}
