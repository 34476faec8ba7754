-- What happened in events `first` to `last` of a conversation, as a model told it. Lists are JSON.
CREATE TABLE episodes(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, session_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  date TEXT NOT NULL, participants TEXT NOT NULL, topics TEXT NOT NULL, decisions TEXT NOT NULL, summary TEXT NOT NULL,
  emotional_tone TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL, run TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE INDEX episodes_span ON episodes(session_id, first);
-- What somebody promised. `deadline` is a day or a local time, or a moment in RFC 3339; `shown_at` when it was brought up after that.
CREATE TABLE commitments(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, what_key TEXT NOT NULL,
  deadline TEXT, status TEXT NOT NULL CHECK(status IN ('open', 'done', 'expired', 'cancelled')),
  episode_id INTEGER REFERENCES episodes(id) ON DELETE SET NULL,
  path TEXT NOT NULL, line INTEGER NOT NULL, session_id TEXT, seq INTEGER, quote TEXT NOT NULL, run TEXT NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, shown_at INTEGER) STRICT;
CREATE INDEX commitments_path ON commitments(path);
CREATE INDEX commitments_session ON commitments(session_id, seq);
-- What each run put in and took out among the sources, so that it can be undone.
CREATE TABLE source_log(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, put_in INTEGER NOT NULL, scope TEXT NOT NULL,
  entity TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL,
  session_id TEXT, seq INTEGER, quote TEXT NOT NULL, confidence REAL NOT NULL, said_at INTEGER NOT NULL, at INTEGER NOT NULL,
  ended INTEGER NOT NULL) STRICT;
CREATE INDEX source_log_run ON source_log(run);
-- Spans of conversations that no model could read, three times over: rules read them instead.
CREATE TABLE parked(
  session_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, why TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY(session_id, first)) STRICT;
-- The words say that it was so and is no longer.
ALTER TABLE fact_sources ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
-- How often in a row the span after the watermark failed.
ALTER TABLE consolidation_state ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
-- What was forgotten on order: what was stated until `at` no longer counts. A fact has all three; a name alone is whoever
-- is called so, wherever it stands; a scope alone is all of that person's own.
CREATE TABLE forgotten(
  id INTEGER PRIMARY KEY, scope TEXT, entity_key TEXT, attribute_key TEXT, at INTEGER NOT NULL) STRICT;
