//! An open collection: its schema in the database, and what this host has in it.

use std::time::{Duration, Instant};

use super::{Error, about};
use crate::config::{self, Secrets};
use crate::db::postgres::{Address, Client, Connection, Parameter, Row, ServerError};
use crate::embedding::{Embedder, Kind};
use crate::memory::index::{Place, ROWS};

/// The tables, see there.
const SCHEMA: &str = include_str!("schema.sql");
/// Their version. Another one is another program's.
const VERSION: i32 = 2;
/// The oldest pgvector with vectors of half precision, which let an index hold up to [`MAX_DIMS`].
const OLDEST_VECTOR: (u32, u32) = (0, 7);
/// From here on an index continues searching until enough rows are seen that the role may see.
const ITERATIVE: (u32, u32) = (0, 8);
/// The most dimensions that are indexed; vectors with more are compared one by one.
const MAX_DIMS: i32 = 4_000;
/// Chunks that the index of vectors looks at, at least as many as are asked for.
const EF_SEARCH: u32 = 100;

/// Returns where a collection is.
pub(super) fn address(
    name: &str,
    settings: &config::Collection,
    secrets: &Secrets,
) -> Result<Address, Error> {
    let variable = &settings.password_env;
    let password = match variable.is_empty() {
        true => None,
        false => {
            let found = secrets.get(variable)?;
            let absent = || Error::NoPassword {
                name: name.to_owned(),
                variable: variable.clone(),
            };
            Some(found.ok_or_else(absent)?)
        }
    };
    Address::new(&settings.url, password.as_ref()).map_err(about(name))
}

/// What `about` says.
pub(super) struct About {
    /// The model of the vectors; empty for none.
    pub model: String,
    pub dims: i32,
}

impl About {
    /// Returns how vectors are compared: as the index has them, where it can.
    pub(super) fn comparable(&self) -> String {
        match self.dims {
            dims if dims <= MAX_DIMS => format!("halfvec({dims})"),
            dims => format!("vector({dims})"),
        }
    }
}

/// pgvector in a database: its schema and its version.
pub(super) type Extension = (String, (u32, u32));

/// An open collection.
pub struct Store {
    name: String,
    connection: Connection,
    /// The schema of pgvector.
    vector_schema: String,
}

impl Store {
    /// Connects; the tables need not be there yet. We wait so long, and the server works so long on one call.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) fn open(
        name: &str,
        address: &Address,
        patience: (Duration, Duration),
    ) -> Result<Self, Error> {
        let connection = Connection::open(address, patience).map_err(about(name))?;
        let mut store = Self {
            name: name.to_owned(),
            connection,
            vector_schema: "public".to_owned(),
        };
        store.prepare()?;
        Ok(store)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.connection.set_patience(patience);
    }

    /// All that is asked from now on has until then.
    pub(super) fn set_deadline(&mut self, until: Instant) {
        self.connection.set_deadline(until);
    }

    /// Puts a deadline off.
    pub(super) fn extend(&mut self, by: Duration) {
        self.connection.extend(by);
    }

    pub(super) fn schema(&self) -> String {
        format!("collection_{}", self.name)
    }

    pub(super) fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client) -> Result<T, ServerError>,
    ) -> Result<T, Error> {
        self.connection.run(work).map_err(about(&self.name))
    }

    /// Runs `work` in a transaction that `begin` opens.
    pub(super) fn transact<T>(
        &mut self,
        begin: &str,
        work: impl AsyncFnOnce(&Client) -> Result<T, ServerError>,
    ) -> Result<T, Error> {
        self.run(async |client| {
            client.batch_execute(begin).await?;
            let done = work(client).await;
            let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
            client.batch_execute(end).await?;
            done
        })
    }

    /// Returns what `read` makes of each row.
    pub(super) fn query<T>(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
        read: impl FnMut(&Row) -> Result<T, ServerError>,
    ) -> Result<Vec<T>, Error> {
        self.run(async |client| {
            let rows = client.query_typed(sql, parameters).await?;
            rows.iter().map(read).collect()
        })
    }

    pub(super) fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), Error> {
        self.run(async |client| client.execute_typed(sql, parameters).await)
            .map(drop)
    }

    /// Returns how a type or an operator of pgvector is in a statement. Its schema is not searched: others may put
    /// functions and operators there that fit a statement of ours better than those that are meant.
    pub(super) fn of_pgvector(&self, name: &str) -> String {
        format!("{}.{name}", quoted(&self.vector_schema))
    }

    /// Makes names in statements mean this collection, and nothing else. To compile a search takes longer than the search.
    fn prepare(&mut self) -> Result<(), Error> {
        let mut settings = "";
        if let Some((schema, version)) = self.vector_extension()? {
            self.vector_schema = schema;
            if version >= ITERATIVE {
                settings = "SET hnsw.iterative_scan = relaxed_order;";
            }
        }
        let sql = format!(
            "SET search_path = {}, pg_temp; SET jit = off; SET hnsw.ef_search = {EF_SEARCH}; {settings}",
            quoted(&self.schema())
        );
        self.run(async |client| client.batch_execute(&sql).await)
    }

    /// Returns the schema and the version of pgvector in this database.
    pub(super) fn vector_extension(&mut self) -> Result<Option<Extension>, Error> {
        let sql = "SELECT n.nspname::text, e.extversion FROM pg_extension e
                   JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'";
        let read = |row: &Row| Ok((row.try_get(0)?, version(row.try_get(1)?)));
        Ok(self.query(sql, &[], read)?.pop())
    }

    /// Makes the tables, in one transaction; false when they are there already. The model of the vectors is that of
    /// `place` from now on.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn create(&mut self, place: &Place) -> Result<bool, Error> {
        match self.about() {
            Ok(_) => return Ok(false),
            Err(Error::Absent(_)) => {}
            Err(error) => return Err(error),
        }
        let (model, dims) = self.model_of(place)?;
        self.need_vector_type()?;
        let schema = quoted(&self.schema());
        let index = match dims {
            1..=MAX_DIMS => format!(
                "CREATE INDEX vectors_near ON vectors USING hnsw ((embedding::{}) {});",
                self.of_pgvector(&format!("halfvec({dims})")),
                self.of_pgvector("halfvec_cosine_ops")
            ),
            _ => String::new(),
        };
        let sql = format!(
            "BEGIN; CREATE SCHEMA {schema}; {SCHEMA} ALTER TABLE vectors ADD COLUMN embedding {}; {index}
             INSERT INTO about(version, format, model, dims) VALUES ({VERSION}, {}, {}, {dims}); COMMIT",
            self.of_pgvector("vector"),
            literal(ROWS),
            literal(&model)
        );
        let done = self.run(async |client| {
            let done = client.batch_execute(&sql).await;
            if done.is_err() {
                // The connection is needed for the hint's sake.
                let _ = client.batch_execute("ROLLBACK").await;
            }
            done
        });
        match done {
            // Another host was quicker.
            Err(_) if self.about().is_ok() => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Returns the model that the settings name, and its dimensions.
    fn model_of(&self, place: &Place) -> Result<(String, i32), Error> {
        let no_vectors = |why: String| Error::NoVectors {
            name: self.name.clone(),
            why,
        };
        let embedder = place.embedder();
        let embedder = embedder.map_err(|error| no_vectors(error.to_string()))?;
        let (model, dims) = match embedder {
            None => (String::new(), 0),
            Some(Embedder::Table(table)) => (table.name().to_owned(), table.dims()),
            Some(Embedder::Model(mut model)) => {
                // Its first vector tells.
                let made = model.embed(Kind::Passage, &["knowledge"]);
                let made = made.map_err(|error| no_vectors(error.to_string()))?;
                let dims = made
                    .into_iter()
                    .flatten()
                    .next()
                    .map_or(0, |vector| vector.len());
                (model.name().to_owned(), dims)
            }
        };
        let dims = i32::try_from(dims).map_err(|error| no_vectors(error.to_string()))?;
        Ok((model, dims))
    }

    fn need_vector_type(&mut self) -> Result<(), Error> {
        if let Some((schema, found)) = self.vector_extension()? {
            self.vector_schema = schema;
            return match found < OLDEST_VECTOR {
                true => Err(self.lacking(format!("pgvector {}.{} is too old", found.0, found.1))),
                false => Ok(()),
            };
        }
        let sql = "CREATE EXTENSION vector SCHEMA public";
        let made = self.run(async |client| client.batch_execute(sql).await);
        made.map_err(|error| self.lacking(format!("the database has no pgvector: {error}")))
    }

    fn lacking(&self, why: String) -> Error {
        Error::NoVectorType {
            name: self.name.clone(),
            why,
        }
    }

    /// Returns what the collection says of itself, which is to be ours.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) fn about(&mut self) -> Result<About, Error> {
        let sql = "SELECT version, format, model, dims FROM about";
        let row = self.run(async |client| client.query_typed_opt(sql, &[]).await)?;
        let name = self.name.clone();
        let Some(row) = row else {
            return Err(Error::Absent(name));
        };
        let read = || -> Result<(i32, String, About), ServerError> {
            let about = About {
                model: row.try_get(2)?,
                dims: row.try_get(3)?,
            };
            Ok((row.try_get(0)?, row.try_get(1)?, about))
        };
        match read() {
            Ok((VERSION, format, about)) if format == ROWS && about.dims >= 0 => Ok(about),
            Ok((version, ..)) if version > VERSION => Err(Error::Version {
                name,
                other: "a newer",
            }),
            Ok((version, ..)) if version < VERSION => Err(Error::Version {
                name,
                other: "an older",
            }),
            Ok(_) | Err(_) => Err(Error::Version {
                name,
                other: "another",
            }),
        }
    }
}

/// Returns the first two numbers of a version.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Returns a name as it is in a statement.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text of ours as it is in a statement.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_end_where_they_should() {
        assert_eq!(quoted("a\"; DROP"), "\"a\"\"; DROP\"");
        assert_eq!(literal(r"a'\'b"), r"E'a\'\\\'b'");
        assert_eq!(
            [version("0.8.5"), version("0.7"), version("x")],
            [(0, 8), (0, 7), (0, 0)]
        );
    }
}
