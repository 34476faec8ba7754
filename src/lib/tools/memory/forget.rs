//! `memory_forget`: forgets at the owner's wish. Only the owner can erase text permanently, in a shell:
//! `agent-consolidate forget --hard`.

use std::fmt::Display;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::agent::{Context, ToolOutput};
use crate::memory::facts;
use crate::memory::facts::{Fact, Meant, Target};
use crate::memory::{Scope, Viewer, consolidate, items};
use crate::sandbox::Existing;
use crate::text::visible;
use crate::tools::typed::{About, Property, TypedTool};
use crate::tools::{Needs, blocking};
use crate::undo::{Change, Deed};
use crate::workspace::WriteTarget;

/// Facts that are named when several are meant.
const MAX_NAMED: usize = 10;

pub(super) struct Forget(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    #[serde(default)]
    fact: String,
    #[serde(default)]
    id: String,
}

impl TypedTool for Forget {
    type Args = Args;

    const ABOUT: About = About {
        name: "memory_forget",
        description: "Forget what the owner wants forgotten: a fact, by words of it or its number, or an item by its id.",
        properties: &[Property::Rare],
    };

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let (needs, context) = (self.0.clone(), context.clone());
        blocking(move || match (args.fact.trim(), args.id.trim()) {
            (fact, "") if !fact.is_empty() => {
                let told = forget_fact(&needs, &context.viewer, fact);
                if !told.is_error {
                    needs.note_deed(&context, Deed::Forgot);
                }
                told
            }
            ("", id) if !id.is_empty() => remove_item(&needs, &context, id).into(),
            _ => ToolOutput::error("give either fact or id"),
        })
        .await
    }
}

/// The answer says what a fact says: it is marked like the file that states it.
fn forget_fact(needs: &Needs, viewer: &Viewer, words: &str) -> ToolOutput {
    let home = needs.memory.home();
    let found = match facts::find(&facts::database(home), words, Some(viewer.scopes())) {
        Ok(found) => found,
        Err(error) => return ToolOutput::error(error.to_string()),
    };
    let stated_by_others = |facts: &[Fact]| {
        let mut facts = facts.iter();
        let marked = facts.find(|fact| needs.memory.is_untrusted(&fact.source));
        marked.map(|fact| super::of_file(&fact.source))
    };
    match found {
        Meant::One(fact) => {
            let marked = stated_by_others(std::slice::from_ref(&*fact));
            ToolOutput::from(forget_one(needs, fact)).marked(marked)
        }
        Meant::Several(many) => {
            let lines: Vec<String> = many
                .iter()
                .take(MAX_NAMED)
                .map(|fact| format!("{}  {}", fact.id, fact.said()))
                .collect();
            let which = lines.join("\n");
            let told = format!("that may be several facts; give a number:\n{which}");
            let named = many.get(..MAX_NAMED).unwrap_or(&many);
            ToolOutput::error(told).marked(stated_by_others(named))
        }
        Meant::Nothing => ToolOutput::error(
            "no fact has these words; what memory_search finds as a line of a file is edited there",
        ),
    }
}

fn forget_one(needs: &Needs, fact: Box<Fact>) -> Result<String, String> {
    let told = format!(
        "forgotten: {} (it was in {}:{})",
        fact.said(),
        visible(&fact.source),
        fact.source_line
    );
    match consolidate::forget(needs.memory.home(), &Target::Fact(fact), false) {
        Ok(Ok(_)) => {
            needs.memory.tell_news();
            Ok(told)
        }
        Ok(Err(_)) => Err("facts are being extracted; try again in a minute".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Keeps the item `id` as it is, so that an undo brings it back: it becomes `new`, or is removed.
pub(super) fn record_item(
    needs: &Needs,
    context: &Context,
    id: &str,
    new: Option<&[u8]>,
) -> Result<(WriteTarget, Existing), String> {
    let words = |error: &dyn Display| error.to_string();
    let path = items::path(id).unwrap_or_default();
    let target = needs.path_policy.write_target(&path.to_string_lossy());
    let target = target.map_err(|error| words(&error))?;
    let old = target.file.existing().map_err(|error| words(&error))?;
    let old = old.ok_or("it is gone already")?;
    let mut source = old.open().map_err(|error| words(&error))?;
    let mode = std::os::unix::fs::PermissionsExt::mode(&old.metadata.permissions());
    let change = Change {
        run: &context.run_id,
        conversation: &context.conversation.0,
        key: &target.key,
        old: Some((&mut source, mode)),
        new,
        made: Vec::new(),
    };
    let recorded = needs.undo.record(change);
    recorded.map_err(|error| words(&error))?;
    Ok((target, old))
}

/// Removes an item, so that an undo of the run brings it back.
fn remove_item(needs: &Needs, context: &Context, id: &str) -> Result<String, String> {
    if !context.viewer.may_see(&Scope::Owner) {
        return Err(items::Error::Unknown(visible(id)).to_string());
    }
    items::read(&needs.root, id).map_err(|error| error.to_string())?;
    let removed = |shown: &str, error: &dyn Display| format!("{shown} was not removed: {error}");
    let (target, old) = record_item(needs, context, id, None)
        .map_err(|error| removed(&format!("item {}", visible(id)), &error))?;
    let shown = visible(&target.key);
    let failed = |error: &dyn Display| removed(&shown, error);
    target.file.remove(&old).map_err(|error| failed(&error))?;
    needs.undo.marks.clear(&target.key).unwrap_or_else(
        |error| tracing::warn!(%error, "could not remove the untrusted mark of a deleted file"),
    );
    // It is not found any more, and what it stated follows.
    needs.memory.refresh();
    needs.memory.tell_news();
    Ok(format!("removed workspace/{shown}; an undo brings it back"))
}
