//! What a DKIM signature (RFC 6376) covers. The receiving server reports that a signature is valid; the signature itself says
//! what it covers.

use crate::head::SIGNED;

/// Returns how many signatures the mail has of the domain in From or its relatives, for which DMARC and DKIM may have
/// passed; or an error when one of these leaves something open, so that others may have added to the mail.
///
/// All of them must cover everything, because the server need not say which one passed.
pub fn covering(headers: &[(&str, &str)], domain: &str) -> Result<usize, String> {
    let named = |name: &str| {
        let all = headers.iter();
        let named: Vec<&str> = all
            .filter(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
            .collect();
        named
    };
    let present = SIGNED.map(|name| (name, named(name).len()));
    let mut count = 0;
    for value in named("dkim-signature") {
        let signature = Signature::parse(value)
            .ok_or_else(|| "a DKIM signature is not understood".to_owned())?;
        if !is_related(&signature.domain, domain) {
            continue;
        }
        count += 1;
        if signature.has_length {
            return Err("the DKIM signature covers a part of the body only (l=)".to_owned());
        }
        // Each mention covers one field, the last one first: one more was added later.
        let is_open = |(name, present): &&(&str, usize)| {
            signature.fields.iter().filter(|own| own == name).count() < *present
        };
        if let Some((open, _)) = present.iter().find(is_open) {
            return Err(format!("the DKIM signature does not cover {open}"));
        }
    }
    Ok(count)
}

/// Returns true for domains that may belong to one owner. It is not known here below which domains everybody may have one,
/// and too many relatives do no harm: their signatures are looked at, not believed.
fn is_related(one: &str, other: &str) -> bool {
    let end = |domain: &str| -> Vec<String> {
        let labels = domain.rsplit('.').take(2);
        labels.map(str::to_ascii_lowercase).collect()
    };
    end(one) == end(other)
}

/// A signature has about ten.
const MAX_TAGS: usize = 50;

struct Signature {
    /// d=
    domain: String,
    /// h=
    fields: Vec<String>,
    /// l=
    has_length: bool,
}

impl Signature {
    /// `None` when it is none, or can be read in more than one way.
    fn parse(value: &str) -> Option<Self> {
        let (mut domain, mut fields, mut has_length) = (None, None, false);
        let mut names: Vec<String> = Vec::new();
        for tag in value.split(';').filter(|tag| !tag.trim().is_empty()) {
            let (name, value) = tag.split_once('=')?;
            let name = name.trim().to_ascii_lowercase();
            let value: String = value.split_ascii_whitespace().collect();
            match name.as_str() {
                "d" => domain = Some(value.trim_end_matches('.').to_ascii_lowercase()),
                "h" => {
                    fields = Some(
                        value
                            .to_ascii_lowercase()
                            .split(':')
                            .map(str::to_owned)
                            .collect(),
                    )
                }
                "l" => has_length = true,
                _ => {}
            }
            if names.contains(&name) || names.len() == MAX_TAGS {
                return None;
            }
            names.push(name);
        }
        Some(Self {
            domain: domain?,
            fields: fields?,
            has_length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=s1;\r\n\th=from : To:cc:subject:\r\n\t date:message-id; bh=abc=; b=de\r\n f/+=";

    fn of(signatures: &[&str], more: &[(&str, &str)]) -> Result<usize, String> {
        let mut headers: Vec<(&str, &str)> = signatures
            .iter()
            .map(|one| ("DKIM-Signature", *one))
            .collect();
        for name in ["From", "To", "Subject", "Date"] {
            headers.push((name, "x"));
        }
        headers.extend_from_slice(more);
        covering(&headers, "example.org")
    }

    #[test]
    fn a_signature_that_leaves_something_open_vouches_for_nothing() {
        assert_eq!(of(&[ALL], &[("Cc", "x"), ("Reply-To", "x")]), Ok(1));
        assert_eq!(of(&[], &[]), Ok(0));
        let open = |change: &dyn Fn(String) -> String, more: &[(&str, &str)]| {
            let changed = change(ALL.to_owned());
            assert!(of(&[&changed], more).is_err(), "{changed}");
            assert!(
                of(&[ALL, &changed], more).is_err(),
                "beside one that covers all"
            );
            // What leaves it open is another's: it is not believed, and stands in nobody's way.
            let other = changed.replace("example.org", "lists.net");
            assert_eq!(of(&[ALL, &other], &[]), Ok(1), "{other}");
        };
        open(&|text| format!("{text}; l=20"), &[]);
        open(&|text| format!("{text} ; L = 0 "), &[]);
        for name in ["to", "subject", "date", "from"] {
            let gone = |text: String| {
                let lower = text.replace("To:", "to:");
                lower
                    .replace(&format!("{name}:"), "x-y:")
                    .replace(&format!("{name} :"), "x-y:")
            };
            open(&gone, &[]);
        }
        open(&|text| text.replace("cc:", ""), &[("CC", "eve@evil.com")]);
        assert!(
            of(&[ALL], &[("To", "agent@example.org")]).is_err(),
            "a second To is not covered"
        );
        let relative = ALL.replace("d=example.org", "d=mail.example.org") + "; l=1";
        assert!(of(&[&relative], &[]).is_err());
        for twofold in ["; d=evil.com", "; h=from", "; word"] {
            assert!(of(&[&format!("{ALL}{twofold}")], &[]).is_err(), "{twofold}");
        }
        assert!(of(&["v=1; b=x"], &[]).is_err());
    }
}
