BEGIN TRANSACTION;
CREATE TABLE consolidation_file_hashes(
  path TEXT PRIMARY KEY, sha256 BLOB, size INTEGER NOT NULL DEFAULT 0, mtime INTEGER NOT NULL DEFAULT 0,
  ctime INTEGER NOT NULL DEFAULT 0,
  run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT) STRICT;
INSERT INTO "consolidation_file_hashes" VALUES('workspace/MEMORY.md',X'937F1F279F949D6BFF76FBF68CA3A8B07247D377293E1470B6C2479F23CAF393',98,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/USER.md',X'4E546A8ADD34DFF9CB7B239997BD84BAF709828A86D1B7F096DCAE763F1239F2',93,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e4g9.md',X'D1CBC3C4DB2B0391DC9B3E4D8AC611FE08C943783462CBDF7703B0F3218C03BC',153,0,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE consolidation_state(
  session_id TEXT PRIMARY KEY, watermark INTEGER NOT NULL DEFAULT 0, seen TEXT,
  claimed_to INTEGER, run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT) STRICT;
INSERT INTO "consolidation_state" VALUES('01a214a4-f101-7339-8042-cb651671984c',16,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE fact_sources(
  id INTEGER PRIMARY KEY, fact INTEGER NOT NULL REFERENCES facts(id), path TEXT NOT NULL, line INTEGER NOT NULL,
  session_id TEXT, seq INTEGER, quote TEXT NOT NULL, confidence REAL NOT NULL, at INTEGER NOT NULL,
  UNIQUE(fact, path, line)) STRICT;
INSERT INTO "fact_sources" VALUES(1,1,'workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e4g9.md',7,NULL,NULL,'My sister Ana''s birthday is 3 May.',0.7,1795642683698);
INSERT INTO "fact_sources" VALUES(2,2,'workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e4g9.md',7,NULL,NULL,'My sister Ana''s birthday is 3 May.',0.7,1795642683698);
INSERT INTO "fact_sources" VALUES(3,1,'state/sessions/01a214a4-f101-7339-8042-cb651671984c.2026-11-25.jsonl',2,'01a214a4-f101-7339-8042-cb651671984c',2,'remember that my sister Ana''s birthday is 3 May',0.9,1795642683671);
INSERT INTO "fact_sources" VALUES(4,2,'state/sessions/01a214a4-f101-7339-8042-cb651671984c.2026-11-25.jsonl',2,'01a214a4-f101-7339-8042-cb651671984c',2,'remember that my sister Ana''s birthday is 3 May',0.9,1795642683671);
CREATE TABLE facts(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL,
  entity TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL,
  entity_key TEXT NOT NULL, attribute_key TEXT NOT NULL, value_key TEXT NOT NULL,
  confidence REAL NOT NULL, source TEXT NOT NULL, source_line INTEGER NOT NULL,
  valid_from INTEGER NOT NULL, valid_to INTEGER, superseded_by INTEGER REFERENCES facts(id),
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, invalidated_at INTEGER) STRICT;
INSERT INTO "facts" VALUES(1,'owner','Ana','birthday','3 May','ana','birthday','3 may',0.9,'workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e4g9.md',7,1795642683671,NULL,NULL,1795642684065,1795642684072,NULL);
INSERT INTO "facts" VALUES(2,'owner','user','sister','Ana','user','sister=ana','ana',0.9,'workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e4g9.md',7,1795642683671,NULL,NULL,1795642684065,1795642684072,NULL);
CREATE TABLE spans(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  added INTEGER NOT NULL, touched INTEGER NOT NULL, superseded INTEGER NOT NULL, gone INTEGER NOT NULL,
  at INTEGER NOT NULL) STRICT;
INSERT INTO "spans" VALUES(1,'01a214a4-f29b-7104-99eb-261713cdda6c','workspace/MEMORY.md',1,4,0,0,0,0,1795642684065);
INSERT INTO "spans" VALUES(2,'01a214a4-f29b-7104-99eb-261713cdda6c','workspace/USER.md',1,4,0,0,0,0,1795642684065);
INSERT INTO "spans" VALUES(3,'01a214a4-f29b-7104-99eb-261713cdda6c','workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e4g9.md',1,8,2,0,0,0,1795642684065);
INSERT INTO "spans" VALUES(4,'01a214a4-f29b-7104-99eb-261713cdda6c','01a214a4-f101-7339-8042-cb651671984c',1,16,0,2,0,0,1795642684072);
CREATE UNIQUE INDEX facts_current ON facts(scope, entity_key, attribute_key) WHERE valid_to IS NULL;
CREATE INDEX facts_key ON facts(scope, entity_key, attribute_key);
CREATE INDEX fact_sources_path ON fact_sources(path);
CREATE INDEX fact_sources_session ON fact_sources(session_id, seq);
CREATE INDEX spans_source ON spans(source);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('facts',2);
COMMIT;
PRAGMA user_version = 1;
