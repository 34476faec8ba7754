//! The state of a collection, for `agent-index status --collection` and the doctor.

use super::Error;
use super::store::Store;
use crate::clock;
use crate::db::postgres::{Parameter, Row, ServerError, Type};

/// The content of a collection that the role can see.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Status {
    /// Its name.
    pub collection: String,
    /// The version of the server.
    pub server: String,
    /// The version of pgvector, `None` without it.
    pub pgvector: Option<String>,
    /// The model of the vectors, `None` when there are none.
    pub model: Option<String>,
    /// Whether vectors are found by an index (HNSW); without it each is compared.
    pub vector_index: bool,
    /// Files.
    pub files: i64,
    /// Chunks.
    pub chunks: i64,
    /// Bytes of its tables and their indexes, as far as the role may know.
    pub bytes: i64,
    /// How far the clock of this host is before that of the server, milliseconds.
    pub skew_ms: i64,
    /// Who filled it.
    pub fills: Vec<Fill>,
}

/// A directory of a host that is filled in.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Fill {
    /// What it is called there.
    pub source: String,
    /// The host.
    pub host: String,
    /// The directory on that host.
    pub directory: String,
    /// Who may see it.
    pub scope: String,
    /// When the last fill began, RFC 3339 UTC.
    pub began_at: String,
    /// When it ended; `None` for one that runs, or was killed.
    pub ended_at: Option<String>,
    /// Its documents then.
    pub files: i64,
    /// Why vectors are missing; empty for none.
    pub lacking: String,
    /// How often it was filled.
    pub times: i64,
    /// The usual pause between two fills, milliseconds; 0 after the first.
    pub pause_ms: i64,
    /// How far the clock of that host was before that of the server, milliseconds.
    pub skew_ms: i64,
}

impl Store {
    /// Returns the content of the collection.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn status(&mut self) -> Result<Status, Error> {
        let extension = self.vector_extension()?;
        let about = self.about()?;
        let (name, schema, now) = (self.name().to_owned(), self.schema(), clock::now_ms());
        self.run(async |client| {
            let parameters: [Parameter<'_>; 2] = [(&schema, Type::TEXT), (&now, Type::INT8)];
            let row = client.query_typed_one(
                "SELECT current_setting('server_version'), (SELECT count(*) FROM files),
                   coalesce((SELECT sum(chunks) FROM files), 0)::int8,
                   coalesce((SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
                     JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'), 0)::int8,
                   $2 - (extract(epoch FROM clock_timestamp()) * 1000)::int8,
                   EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = 'vectors'::regclass AND i.indisvalid
                     AND i.indexrelid::regclass::text ~ 'vectors_near$')",
                &parameters,
            );
            let fills = client.query_typed(
                "SELECT source, host, directory, scope, (extract(epoch FROM began_at) * 1000)::int8,
                   (extract(epoch FROM ended_at) * 1000)::int8, files, lacking, skew_ms, times, pause_ms
                 FROM fills ORDER BY source, host",
                &[],
            );
            let (row, fills) = tokio::try_join!(row, fills)?;
            Ok(Status {
                collection: name,
                server: row.try_get(0)?,
                pgvector: extension.map(|(_, (major, minor))| format!("{major}.{minor}")),
                model: Some(about.model).filter(|model| !model.is_empty()),
                files: row.try_get(1)?,
                chunks: row.try_get(2)?,
                bytes: row.try_get(3)?,
                skew_ms: row.try_get(4)?,
                vector_index: row.try_get(5)?,
                fills: fills.iter().map(fill).collect::<Result<_, ServerError>>()?,
            })
        })
    }
}

fn fill(row: &Row) -> Result<Fill, ServerError> {
    Ok(Fill {
        source: row.try_get(0)?,
        host: row.try_get(1)?,
        directory: row.try_get(2)?,
        scope: row.try_get(3)?,
        began_at: clock::rfc3339(row.try_get(4)?),
        ended_at: row.try_get::<_, Option<i64>>(5)?.map(clock::rfc3339),
        files: row.try_get(6)?,
        lacking: row.try_get(7)?,
        skew_ms: row.try_get(8)?,
        times: row.try_get(9)?,
        pause_ms: row.try_get(10)?,
    })
}
