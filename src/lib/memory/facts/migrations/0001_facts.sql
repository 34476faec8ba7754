-- What was stated. The `_key` columns are how values are compared: letter case and space do not matter.
CREATE TABLE facts(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL,
  entity TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL,
  entity_key TEXT NOT NULL, attribute_key TEXT NOT NULL, value_key TEXT NOT NULL,
  confidence REAL NOT NULL, source TEXT NOT NULL, source_line INTEGER NOT NULL,
  valid_from INTEGER NOT NULL, valid_to INTEGER, superseded_by INTEGER REFERENCES facts(id),
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, invalidated_at INTEGER) STRICT;
CREATE UNIQUE INDEX facts_current ON facts(scope, entity_key, attribute_key) WHERE valid_to IS NULL;
CREATE INDEX facts_key ON facts(scope, entity_key, attribute_key);
-- Where it was stated; the same place is one source. `at` is when it was first stated there.
CREATE TABLE fact_sources(
  id INTEGER PRIMARY KEY, fact INTEGER NOT NULL REFERENCES facts(id), path TEXT NOT NULL, line INTEGER NOT NULL,
  session_id TEXT, seq INTEGER, quote TEXT NOT NULL, confidence REAL NOT NULL, at INTEGER NOT NULL,
  UNIQUE(fact, path, line)) STRICT;
CREATE INDEX fact_sources_path ON fact_sources(path);
CREATE INDEX fact_sources_session ON fact_sources(session_id, seq);
-- How far each conversation was worked through, and who is at it. `seen` is what its files looked like.
CREATE TABLE consolidation_state(
  session_id TEXT PRIMARY KEY, watermark INTEGER NOT NULL DEFAULT 0, seen TEXT,
  claimed_to INTEGER, run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT) STRICT;
-- What each file was when it was worked through, and who is at it; no hash: it never was.
CREATE TABLE consolidation_file_hashes(
  path TEXT PRIMARY KEY, sha256 BLOB, size INTEGER NOT NULL DEFAULT 0, mtime INTEGER NOT NULL DEFAULT 0,
  ctime INTEGER NOT NULL DEFAULT 0,
  run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT) STRICT;
-- What was done: a file, or events `first` to `last` of a conversation.
CREATE TABLE spans(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  added INTEGER NOT NULL, touched INTEGER NOT NULL, superseded INTEGER NOT NULL, gone INTEGER NOT NULL,
  at INTEGER NOT NULL) STRICT;
CREATE INDEX spans_source ON spans(source);
