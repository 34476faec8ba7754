//! Audit log entries of the pipeline: approval requests with their results, and sends.

use super::Pipeline;
use crate::audit::Call;
use crate::message::{Approval, Envelope, Source};
use crate::queue::{Aftermath, Part, PutDown, Request};

impl Pipeline {
    /// Requests were put down; of those from before a restart nothing is new.
    pub(super) fn audit_asked(&self, requests: &[Request], put: &PutDown) {
        for (request, granted) in requests.iter().zip(&put.granted) {
            if *granted {
                self.audit_request(request, "allowed before", None);
            } else if put.ids.contains(&request.id) {
                self.audit_request(request, "asked", None);
            }
        }
    }

    /// The owner said a word.
    pub(super) fn audit_word(&self, requests: &[Request], word: Approval, envelope: &Envelope) {
        let verdict = match word {
            Approval::Approve => "approved",
            Approval::Session => "approved for the conversation",
            Approval::Always => "approved always",
            Approval::Deny => "denied",
        };
        // What the shell or a client calls itself is free text.
        let who = match envelope.source {
            Source::Cli => "shell",
            Source::Http => "HTTP",
            _ => &envelope.sender.id,
        };
        requests
            .iter()
            .for_each(|request| self.audit_request(request, verdict, Some(who)));
    }

    /// Requests ended silently about them.
    pub(super) fn audit_ends(&self, requests: &[Request], verdict: &'static str) {
        requests
            .iter()
            .for_each(|request| self.audit_request(request, verdict, None));
    }

    /// A part arrived, may have, or never will; one that is tried again says nothing yet.
    pub(super) fn audit_send(&self, part: &Part, aftermath: &Aftermath) {
        let (outcome, message) = match aftermath {
            Aftermath::Sent { message_id } => ("sent", Some(message_id.as_str())),
            Aftermath::Unknown => ("unknown", None),
            Aftermath::Dead { .. } => ("given up", None),
            Aftermath::NotSent | Aftermath::Plain => return,
        };
        self.audit_part(part, outcome, message);
    }

    /// The chat was notified that this part may be missing.
    pub(super) fn audit_notice(&self, part: &Part, message_id: &str) {
        self.audit_part(part, "notice sent", Some(message_id));
    }

    fn audit_part(&self, part: &Part, outcome: &'static str, message: Option<&str>) {
        let route = &part.content.route;
        self.audit.sent(
            (&route.channel, &route.chat.chat),
            part.id,
            outcome,
            message,
        );
    }

    fn audit_request(&self, request: &Request, verdict: &'static str, who: Option<&str>) {
        let Request {
            id,
            session_id,
            run_id,
            call_id,
            tool,
            bound,
            ..
        } = request;
        let call = Call {
            session: session_id,
            run: run_id,
            id: call_id,
            tool,
        };
        self.audit.approval(id, verdict, who, Some((call, bound)));
    }
}
