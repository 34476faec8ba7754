PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE facts(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL,
  entity TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL,
  entity_key TEXT NOT NULL, attribute_key TEXT NOT NULL, value_key TEXT NOT NULL,
  confidence REAL NOT NULL, source TEXT NOT NULL, source_line INTEGER NOT NULL,
  valid_from INTEGER NOT NULL, valid_to INTEGER, superseded_by INTEGER REFERENCES facts(id),
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, invalidated_at INTEGER) STRICT;
INSERT INTO facts VALUES(1,'owner','Berta','dog','Rex','berta','dog=rex','rex',0.69999999999999995559,'workspace/memory/items/2026-11-26-bertas-dog-is-called-rex-d5v4.md',7,1795656812173,NULL,NULL,1795656812197,1795656812197,NULL);
CREATE TABLE fact_sources(
  id INTEGER PRIMARY KEY, fact INTEGER NOT NULL REFERENCES facts(id), path TEXT NOT NULL, line INTEGER NOT NULL,
  session_id TEXT, seq INTEGER, quote TEXT NOT NULL, confidence REAL NOT NULL, at INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
  UNIQUE(fact, path, line)) STRICT;
INSERT INTO fact_sources VALUES(1,1,'workspace/memory/items/2026-11-26-bertas-dog-is-called-rex-d5v4.md',7,NULL,NULL,'Berta''s dog is called Rex.',0.69999999999999995559,1795656812173,0);
CREATE TABLE consolidation_state(
  session_id TEXT PRIMARY KEY, watermark INTEGER NOT NULL DEFAULT 0, seen TEXT,
  claimed_to INTEGER, run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT, failures INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO consolidation_state VALUES('01a2157c-8671-7323-a1fd-6d1ec2941a47',13,replace('01a2157c-8671-7323-a1fd-6d1ec2941a47.2026-11-26.jsonl 10641594 5515 1795656812229868830 1795656812229868830\n','\n',char(10)),NULL,NULL,NULL,NULL,NULL,NULL,0);
CREATE TABLE consolidation_file_hashes(
  path TEXT PRIMARY KEY, sha256 BLOB, size INTEGER NOT NULL DEFAULT 0, mtime INTEGER NOT NULL DEFAULT 0,
  ctime INTEGER NOT NULL DEFAULT 0,
  run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT) STRICT;
INSERT INTO consolidation_file_hashes VALUES('workspace/USER.md',X'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',0,1795656809135294795,1795656809135294795,NULL,NULL,NULL,NULL,NULL);
INSERT INTO consolidation_file_hashes VALUES('workspace/memory/items/2026-11-26-bertas-dog-is-called-rex-d5v4.md',X'44c3bbabe4f500524931a2eecf84b4df193fc8f39e452216b6957896c8463693',137,1795656812173868833,1795656812173868833,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE spans(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  added INTEGER NOT NULL, touched INTEGER NOT NULL, superseded INTEGER NOT NULL, gone INTEGER NOT NULL,
  at INTEGER NOT NULL) STRICT;
INSERT INTO spans VALUES(1,'01a2157c-86a3-709c-b47e-a64b83ba4a97','workspace/USER.md',1,1,0,0,0,0,1795656812197);
INSERT INTO spans VALUES(2,'01a2157c-86a3-709c-b47e-a64b83ba4a97','workspace/memory/items/2026-11-26-bertas-dog-is-called-rex-d5v4.md',1,8,1,0,0,0,1795656812197);
INSERT INTO spans VALUES(3,'01a2157c-8edb-735f-9fbf-93a415ee4e3f','01a2157c-8671-7323-a1fd-6d1ec2941a47',1,13,0,0,0,0,1795656814304);
CREATE TABLE episodes(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, session_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  date TEXT NOT NULL, participants TEXT NOT NULL, topics TEXT NOT NULL, decisions TEXT NOT NULL, summary TEXT NOT NULL,
  emotional_tone TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL, run TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE TABLE commitments(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, what_key TEXT NOT NULL,
  deadline TEXT, status TEXT NOT NULL CHECK(status IN ('open', 'done', 'expired', 'cancelled')),
  episode_id INTEGER REFERENCES episodes(id) ON DELETE SET NULL,
  path TEXT NOT NULL, line INTEGER NOT NULL, session_id TEXT, seq INTEGER, quote TEXT NOT NULL, run TEXT NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, shown_at INTEGER) STRICT;
CREATE TABLE source_log(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, put_in INTEGER NOT NULL, scope TEXT NOT NULL,
  entity TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL,
  session_id TEXT, seq INTEGER, quote TEXT NOT NULL, confidence REAL NOT NULL, said_at INTEGER NOT NULL, at INTEGER NOT NULL,
  ended INTEGER NOT NULL) STRICT;
INSERT INTO source_log VALUES(1,'01a2157c-86a3-709c-b47e-a64b83ba4a97',1,'owner','Berta','dog','Rex','workspace/memory/items/2026-11-26-bertas-dog-is-called-rex-d5v4.md',7,NULL,NULL,'Berta''s dog is called Rex.',0.69999999999999995559,1795656812173,1795656812197,0);
CREATE TABLE parked(
  session_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, why TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY(session_id, first)) STRICT;
CREATE TABLE forgotten(
  id INTEGER PRIMARY KEY, scope TEXT, entity_key TEXT, attribute_key TEXT, at INTEGER NOT NULL) STRICT;
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('facts',1);
CREATE UNIQUE INDEX facts_current ON facts(scope, entity_key, attribute_key) WHERE valid_to IS NULL;
CREATE INDEX facts_key ON facts(scope, entity_key, attribute_key);
CREATE INDEX fact_sources_path ON fact_sources(path);
CREATE INDEX fact_sources_session ON fact_sources(session_id, seq);
CREATE INDEX spans_source ON spans(source);
CREATE INDEX episodes_span ON episodes(session_id, first);
CREATE INDEX commitments_path ON commitments(path);
CREATE INDEX commitments_session ON commitments(session_id, seq);
CREATE INDEX source_log_run ON source_log(run);
COMMIT;
PRAGMA user_version = 2;
