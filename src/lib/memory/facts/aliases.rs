//! Other names of a person: `alias` facts, such as `Robert alias Bob`, decide under which name a fact is stored.
//!
//! An alias stands for at most one other name, never for itself, and chains of aliases have no cycles (specification §13). A
//! name with facts of its own is never used as an alias, because two people may have the same name. A source keeps the
//! original name, so that its fact returns to that name when the alias is withdrawn.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::normalize::{folded, value_key};
use super::store::Statement;
use crate::db::Statements;
use crate::memory::scope::Scope;

/// The attribute.
pub(crate) const ALIAS: &str = "alias";

/// Returns true for a statement that names an alias.
pub(super) fn is_alias(statement: &Statement) -> bool {
    folded(&statement.attribute) == ALIAS
}

/// Other names, of each scope that was asked for.
pub(super) struct Aliases<'a> {
    connection: &'a Connection,
    known: HashMap<String, HashMap<String, String>>,
    /// Who got another name by what is stated now: scope and name, folded.
    named: HashSet<(String, String)>,
}

impl<'a> Aliases<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            known: HashMap::new(),
            named: HashSet::new(),
        }
    }

    /// Returns the names of `scope` that stand for others: the compared form of the alias, the name it stands for.
    fn of(&mut self, scope: &Scope) -> rusqlite::Result<&mut HashMap<String, String>> {
        let scope = scope.to_string();
        if !self.known.contains_key(&scope) {
            // The attribute of what people have several of goes with the value: see `Key`.
            let sql = "SELECT value, entity FROM facts
                       WHERE scope = ?1 AND attribute_key >= 'alias=' AND attribute_key < 'alias>' AND valid_to IS NULL ORDER BY id";
            let mut names = HashMap::new();
            let rows: Vec<(String, String)> = self
                .connection
                .all(sql, [&scope], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for (alias, name) in rows {
                names.entry(value_key(&alias)).or_insert(name);
            }
            self.known.insert(scope.clone(), names);
        }
        Ok(self.known.entry(scope).or_default())
    }

    /// Returns the name under which `entity` is known in `scope`.
    fn name_of(&mut self, scope: &Scope, entity: &str) -> rusqlite::Result<String> {
        Ok(self
            .of(scope)?
            .get(&folded(entity))
            .cloned()
            .unwrap_or_else(|| entity.to_owned()))
    }

    /// Returns the statement under the name that counts.
    pub(super) fn filed(&mut self, mut statement: Statement) -> rusqlite::Result<Statement> {
        let said = statement.said_of.as_ref().unwrap_or(&statement.entity);
        let name = self.name_of(&statement.scope, said)?;
        if folded(&name) != folded(&statement.entity) {
            statement.said_of = Some(said.clone());
            statement.entity = name;
        }
        Ok(statement)
    }

    /// Does [`Self::filed`]; `None` for an alias that cannot be one.
    pub(super) fn resolve(&mut self, statement: Statement) -> rusqlite::Result<Option<Statement>> {
        let statement = self.filed(statement)?;
        if !is_alias(&statement) {
            return Ok(Some(statement));
        }
        let (alias, name) = (value_key(&statement.value), folded(&statement.entity));
        let scope = statement.scope.to_string();
        let there = self.of(&statement.scope)?;
        let is_taken = there.get(&alias).is_some_and(|other| folded(other) != name);
        // One that is stored is a fact.
        let has_aliases = self.named.contains(&(scope.clone(), alias.clone()));
        if alias == name
            || alias == "user"
            || is_taken
            || has_aliases
            || self.has_facts(&statement.scope, &alias)?
        {
            tracing::info!(
                alias,
                of = name,
                "not used as an alias: it is a person's own name, or already an alias of another"
            );
            return Ok(None);
        }
        self.of(&statement.scope)?
            .insert(alias, statement.entity.clone());
        self.named.insert((scope, name));
        Ok(Some(statement))
    }

    /// Returns true for whom something is known that no alias brought, and none can take along.
    fn has_facts(&self, scope: &Scope, entity: &str) -> rusqlite::Result<bool> {
        let sql = "SELECT EXISTS(SELECT 1 FROM facts f JOIN fact_sources s ON s.fact = f.id
                   WHERE f.scope = ?1 AND f.entity_key = ?2 AND f.valid_to IS NULL AND s.said_of IS NULL)";
        self.connection
            .one(sql, (scope.to_string(), entity), |row| row.get(0))
    }
}
