BEGIN TRANSACTION;
CREATE TABLE commitments(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, what_key TEXT NOT NULL,
  deadline TEXT, status TEXT NOT NULL CHECK(status IN ('open', 'done', 'expired', 'cancelled')),
  episode_id INTEGER REFERENCES episodes(id) ON DELETE SET NULL,
  path TEXT NOT NULL, line INTEGER NOT NULL, session_id TEXT, seq INTEGER, quote TEXT NOT NULL, run TEXT NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, shown_at INTEGER) STRICT;
CREATE TABLE consolidation_file_hashes(
  path TEXT PRIMARY KEY, sha256 BLOB, size INTEGER NOT NULL DEFAULT 0, mtime INTEGER NOT NULL DEFAULT 0,
  ctime INTEGER NOT NULL DEFAULT 0,
  run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT) STRICT;
INSERT INTO "consolidation_file_hashes" VALUES('workspace/MEMORY.md',X'937F1F279F949D6BFF76FBF68CA3A8B07247D377293E1470B6C2479F23CAF393',98,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/USER.md',X'4E546A8ADD34DFF9CB7B239997BD84BAF709828A86D1B7F096DCAE763F1239F2',93,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md',X'49EA14AEA2BB8397A1374F059BC0C158D7617DDBC8D266FC6B95C1C27CB2BA77',153,0,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE consolidation_state(
  session_id TEXT PRIMARY KEY, watermark INTEGER NOT NULL DEFAULT 0, seen TEXT,
  claimed_to INTEGER, run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT, failures INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "consolidation_state" VALUES('01a214a4-f7b8-76fe-b4e8-1099fc0c65ca',19,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0);
CREATE TABLE episodes(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, session_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  date TEXT NOT NULL, participants TEXT NOT NULL, topics TEXT NOT NULL, decisions TEXT NOT NULL, summary TEXT NOT NULL,
  emotional_tone TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL, run TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE TABLE fact_sources(
  id INTEGER PRIMARY KEY, fact INTEGER NOT NULL REFERENCES facts(id), path TEXT NOT NULL, line INTEGER NOT NULL,
  session_id TEXT, seq INTEGER, quote TEXT NOT NULL, confidence REAL NOT NULL, at INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
  UNIQUE(fact, path, line)) STRICT;
INSERT INTO "fact_sources" VALUES(1,1,'workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md',7,NULL,NULL,'My sister Ana''s birthday is 3 May.',0.7,1795642685426,0);
INSERT INTO "fact_sources" VALUES(2,2,'workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md',7,NULL,NULL,'My sister Ana''s birthday is 3 May.',0.7,1795642685426,0);
CREATE TABLE facts(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL,
  entity TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL,
  entity_key TEXT NOT NULL, attribute_key TEXT NOT NULL, value_key TEXT NOT NULL,
  confidence REAL NOT NULL, source TEXT NOT NULL, source_line INTEGER NOT NULL,
  valid_from INTEGER NOT NULL, valid_to INTEGER, superseded_by INTEGER REFERENCES facts(id),
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, invalidated_at INTEGER) STRICT;
INSERT INTO "facts" VALUES(1,'owner','Ana','birthday','3 May','ana','birthday','3 may',0.7,'workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md',7,1795642685426,NULL,NULL,1795642685937,1795642685937,NULL);
INSERT INTO "facts" VALUES(2,'owner','user','sister','Ana','user','sister=ana','ana',0.7,'workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md',7,1795642685426,NULL,NULL,1795642685937,1795642685937,NULL);
CREATE TABLE forgotten(
  id INTEGER PRIMARY KEY, scope TEXT, entity_key TEXT, attribute_key TEXT, at INTEGER NOT NULL) STRICT;
CREATE TABLE parked(
  session_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, why TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY(session_id, first)) STRICT;
CREATE TABLE source_log(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, put_in INTEGER NOT NULL, scope TEXT NOT NULL,
  entity TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL,
  session_id TEXT, seq INTEGER, quote TEXT NOT NULL, confidence REAL NOT NULL, said_at INTEGER NOT NULL, at INTEGER NOT NULL,
  ended INTEGER NOT NULL) STRICT;
INSERT INTO "source_log" VALUES(1,'01a214a4-f9ef-7024-971a-98b3d26ba325',1,'owner','user','sister','Ana','workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md',7,NULL,NULL,'My sister Ana''s birthday is 3 May.',0.7,1795642685426,1795642685937,0);
INSERT INTO "source_log" VALUES(2,'01a214a4-f9ef-7024-971a-98b3d26ba325',1,'owner','Ana','birthday','3 May','workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md',7,NULL,NULL,'My sister Ana''s birthday is 3 May.',0.7,1795642685426,1795642685937,0);
CREATE TABLE spans(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  added INTEGER NOT NULL, touched INTEGER NOT NULL, superseded INTEGER NOT NULL, gone INTEGER NOT NULL,
  at INTEGER NOT NULL) STRICT;
INSERT INTO "spans" VALUES(1,'01a214a4-f9ef-7024-971a-98b3d26ba325','workspace/MEMORY.md',1,4,0,0,0,0,1795642685937);
INSERT INTO "spans" VALUES(2,'01a214a4-f9ef-7024-971a-98b3d26ba325','workspace/USER.md',1,4,0,0,0,0,1795642685937);
INSERT INTO "spans" VALUES(3,'01a214a4-f9ef-7024-971a-98b3d26ba325','workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md',1,8,2,0,0,0,1795642685937);
INSERT INTO "spans" VALUES(4,'01a214a4-f9ef-7024-971a-98b3d26ba325','01a214a4-f7b8-76fe-b4e8-1099fc0c65ca',1,19,0,0,0,0,1795642685945);
CREATE UNIQUE INDEX facts_current ON facts(scope, entity_key, attribute_key) WHERE valid_to IS NULL;
CREATE INDEX facts_key ON facts(scope, entity_key, attribute_key);
CREATE INDEX fact_sources_path ON fact_sources(path);
CREATE INDEX fact_sources_session ON fact_sources(session_id, seq);
CREATE INDEX spans_source ON spans(source);
CREATE INDEX episodes_span ON episodes(session_id, first);
CREATE INDEX commitments_path ON commitments(path);
CREATE INDEX commitments_session ON commitments(session_id, seq);
CREATE INDEX source_log_run ON source_log(run);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('facts',2);
COMMIT;
PRAGMA user_version = 2;
