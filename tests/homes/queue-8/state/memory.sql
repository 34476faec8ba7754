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
INSERT INTO "consolidation_file_hashes" VALUES('workspace/USER.md',X'E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855',0,1795521670138739856,1795521670138739856,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-anas-dog-is-rex-mw6n.md',X'F128F0C1C93D44474E584E5EC810784CA79B7EDB3BEDBB3CB1DF22B095321779',119,1795521670513472959,1795521670517472959,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-bertas-dog-is-rex-tav7.md',X'ED6545D8571E1A42DAC4F4926B7469F6254DB8E753F83C59DD7540B9285ED8E8',123,1795521670929472974,1795521670933472974,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-carlas-dog-is-rex-u8j8.md',X'6DF15B9B01D44140FD582A03F1400692F5B5DFEEF756927C7ED6F873031B41AE',123,1795521671341472989,1795521671361520981,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-doras-dog-is-rex-h9js.md',X'D0F17D8D3A255D4A4B83E286A6B8857D601AFC95B8D8895FE67B9C3CA6005244',121,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-elsas-dog-is-rex-u286.md',X'97B6D9B9AA0AC9ECBFFBE379DD270DB4504F8C8933192E7355E7157FDEA44145',121,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-fridas-dog-is-rex-8c7f.md',X'63623E50E379A72FD4098CF463940C9B1E048C4EF2763A83EA251BEC4879CFDA',123,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-gerdas-dog-is-rex-6w49.md',X'1AD055C0D32F9ABB80203B5245D3F77076539AD08169DE896399414AFB2EF333',123,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-hannas-dog-is-rex-7k2d.md',X'EF47A7E5032D5450D29A12CEED622F8B57AC29040894DCBAA655E72E7BD549EF',123,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-idas-dog-is-rex-grbj.md',X'C3C27D8BF93600069940B522C0F9B181725D8FBC6AC1501C69F999EA8DAF920D',119,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "consolidation_file_hashes" VALUES('workspace/memory/items/2026-11-24-janas-dog-is-rex-rx8d.md',X'C569DAE7635AC6DDA310BCAC1855046CF806209F84573E1DCAAE8E3D5E8489E7',121,0,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE consolidation_state(
  session_id TEXT PRIMARY KEY, watermark INTEGER NOT NULL DEFAULT 0, seen TEXT,
  claimed_to INTEGER, run TEXT, lease_until INTEGER, pid INTEGER, started INTEGER, boot_id TEXT, failures INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "consolidation_state" VALUES('01a20d6e-6cba-702b-9892-890479c1d0ed',61,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0);
CREATE TABLE episodes(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, session_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  date TEXT NOT NULL, participants TEXT NOT NULL, topics TEXT NOT NULL, decisions TEXT NOT NULL, summary TEXT NOT NULL,
  emotional_tone TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL, run TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE TABLE fact_sources(
  id INTEGER PRIMARY KEY, fact INTEGER NOT NULL REFERENCES facts(id), path TEXT NOT NULL, line INTEGER NOT NULL,
  session_id TEXT, seq INTEGER, quote TEXT NOT NULL, confidence REAL NOT NULL, at INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
  UNIQUE(fact, path, line)) STRICT;
INSERT INTO "fact_sources" VALUES(1,1,'workspace/memory/items/2026-11-24-anas-dog-is-rex-mw6n.md',7,NULL,NULL,'Ana''s dog is Rex.',0.7,1795521670513,0);
INSERT INTO "fact_sources" VALUES(2,2,'workspace/memory/items/2026-11-24-bertas-dog-is-rex-tav7.md',7,NULL,NULL,'Berta''s dog is Rex.',0.7,1795521670929,0);
INSERT INTO "fact_sources" VALUES(3,3,'workspace/memory/items/2026-11-24-carlas-dog-is-rex-u8j8.md',7,NULL,NULL,'Carla''s dog is Rex.',0.7,1795521671341,0);
INSERT INTO "fact_sources" VALUES(4,4,'workspace/memory/items/2026-11-24-doras-dog-is-rex-h9js.md',7,NULL,NULL,'Dora''s dog is Rex.',0.7,1795521671801,0);
INSERT INTO "fact_sources" VALUES(5,5,'workspace/memory/items/2026-11-24-elsas-dog-is-rex-u286.md',7,NULL,NULL,'Elsa''s dog is Rex.',0.7,1795521671909,0);
INSERT INTO "fact_sources" VALUES(6,6,'workspace/memory/items/2026-11-24-fridas-dog-is-rex-8c7f.md',7,NULL,NULL,'Frida''s dog is Rex.',0.7,1795521672337,0);
INSERT INTO "fact_sources" VALUES(7,7,'workspace/memory/items/2026-11-24-gerdas-dog-is-rex-6w49.md',7,NULL,NULL,'Gerda''s dog is Rex.',0.7,1795521672469,0);
INSERT INTO "fact_sources" VALUES(8,8,'workspace/memory/items/2026-11-24-hannas-dog-is-rex-7k2d.md',7,NULL,NULL,'Hanna''s dog is Rex.',0.7,1795521672953,0);
INSERT INTO "fact_sources" VALUES(9,9,'workspace/memory/items/2026-11-24-idas-dog-is-rex-grbj.md',7,NULL,NULL,'Ida''s dog is Rex.',0.7,1795521673061,0);
INSERT INTO "fact_sources" VALUES(10,10,'workspace/memory/items/2026-11-24-janas-dog-is-rex-rx8d.md',7,NULL,NULL,'Jana''s dog is Rex.',0.7,1795521673449,0);
CREATE TABLE facts(
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL,
  entity TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL,
  entity_key TEXT NOT NULL, attribute_key TEXT NOT NULL, value_key TEXT NOT NULL,
  confidence REAL NOT NULL, source TEXT NOT NULL, source_line INTEGER NOT NULL,
  valid_from INTEGER NOT NULL, valid_to INTEGER, superseded_by INTEGER REFERENCES facts(id),
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, invalidated_at INTEGER) STRICT;
INSERT INTO "facts" VALUES(1,'owner','Ana','dog','Rex','ana','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-anas-dog-is-rex-mw6n.md',7,1795521670513,NULL,NULL,1795521670639,1795521670639,NULL);
INSERT INTO "facts" VALUES(2,'owner','Berta','dog','Rex','berta','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-bertas-dog-is-rex-tav7.md',7,1795521670929,NULL,NULL,1795521671079,1795521671079,NULL);
INSERT INTO "facts" VALUES(3,'owner','Carla','dog','Rex','carla','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-carlas-dog-is-rex-u8j8.md',7,1795521671341,NULL,NULL,1795521671526,1795521671526,NULL);
INSERT INTO "facts" VALUES(4,'owner','Dora','dog','Rex','dora','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-doras-dog-is-rex-h9js.md',7,1795521671801,NULL,NULL,1795521671855,1795521671855,NULL);
INSERT INTO "facts" VALUES(5,'owner','Elsa','dog','Rex','elsa','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-elsas-dog-is-rex-u286.md',7,1795521671909,NULL,NULL,1795521671990,1795521671990,NULL);
INSERT INTO "facts" VALUES(6,'owner','Frida','dog','Rex','frida','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-fridas-dog-is-rex-8c7f.md',7,1795521672337,NULL,NULL,1795521672448,1795521672448,NULL);
INSERT INTO "facts" VALUES(7,'owner','Gerda','dog','Rex','gerda','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-gerdas-dog-is-rex-6w49.md',7,1795521672469,NULL,NULL,1795521672618,1795521672618,NULL);
INSERT INTO "facts" VALUES(8,'owner','Hanna','dog','Rex','hanna','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-hannas-dog-is-rex-7k2d.md',7,1795521672953,NULL,NULL,1795521673046,1795521673046,NULL);
INSERT INTO "facts" VALUES(9,'owner','Ida','dog','Rex','ida','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-idas-dog-is-rex-grbj.md',7,1795521673061,NULL,NULL,1795521673309,1795521673309,NULL);
INSERT INTO "facts" VALUES(10,'owner','Jana','dog','Rex','jana','dog=rex','rex',0.7,'workspace/memory/items/2026-11-24-janas-dog-is-rex-rx8d.md',7,1795521673449,NULL,NULL,1795521673540,1795521673540,NULL);
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
INSERT INTO "source_log" VALUES(1,'01a20d6e-6db5-70eb-812c-40ee1ba68d54',1,'owner','Ana','dog','Rex','workspace/memory/items/2026-11-24-anas-dog-is-rex-mw6n.md',7,NULL,NULL,'Ana''s dog is Rex.',0.7,1795521670513,1795521670639,0);
INSERT INTO "source_log" VALUES(2,'01a20d6e-6f59-73df-9226-f06dbb88d3e6',1,'owner','Berta','dog','Rex','workspace/memory/items/2026-11-24-bertas-dog-is-rex-tav7.md',7,NULL,NULL,'Berta''s dog is Rex.',0.7,1795521670929,1795521671079,0);
INSERT INTO "source_log" VALUES(3,'01a20d6e-7122-74b2-a926-0402c27ef4dd',1,'owner','Carla','dog','Rex','workspace/memory/items/2026-11-24-carlas-dog-is-rex-u8j8.md',7,NULL,NULL,'Carla''s dog is Rex.',0.7,1795521671341,1795521671526,0);
INSERT INTO "source_log" VALUES(4,'01a20d6e-7289-72f2-b036-e12275f1f31f',1,'owner','Dora','dog','Rex','workspace/memory/items/2026-11-24-doras-dog-is-rex-h9js.md',7,NULL,NULL,'Dora''s dog is Rex.',0.7,1795521671801,1795521671855,0);
INSERT INTO "source_log" VALUES(5,'01a20d6e-7309-746b-87dd-0473a3331521',1,'owner','Elsa','dog','Rex','workspace/memory/items/2026-11-24-elsas-dog-is-rex-u286.md',7,NULL,NULL,'Elsa''s dog is Rex.',0.7,1795521671909,1795521671990,0);
INSERT INTO "source_log" VALUES(6,'01a20d6e-74d4-71d5-b3fb-aaa46009fd5c',1,'owner','Frida','dog','Rex','workspace/memory/items/2026-11-24-fridas-dog-is-rex-8c7f.md',7,NULL,NULL,'Frida''s dog is Rex.',0.7,1795521672337,1795521672448,0);
INSERT INTO "source_log" VALUES(7,'01a20d6e-7579-71a2-ae28-574549e9279c',1,'owner','Gerda','dog','Rex','workspace/memory/items/2026-11-24-gerdas-dog-is-rex-6w49.md',7,NULL,NULL,'Gerda''s dog is Rex.',0.7,1795521672469,1795521672618,0);
INSERT INTO "source_log" VALUES(8,'01a20d6e-7712-7311-98bf-070d8fd734a6',1,'owner','Hanna','dog','Rex','workspace/memory/items/2026-11-24-hannas-dog-is-rex-7k2d.md',7,NULL,NULL,'Hanna''s dog is Rex.',0.7,1795521672953,1795521673046,0);
INSERT INTO "source_log" VALUES(9,'01a20d6e-7812-75df-be47-6dd7f7cbfa4a',1,'owner','Ida','dog','Rex','workspace/memory/items/2026-11-24-idas-dog-is-rex-grbj.md',7,NULL,NULL,'Ida''s dog is Rex.',0.7,1795521673061,1795521673309,0);
INSERT INTO "source_log" VALUES(10,'01a20d6e-790a-7319-973a-e1289de1ddb9',1,'owner','Jana','dog','Rex','workspace/memory/items/2026-11-24-janas-dog-is-rex-rx8d.md',7,NULL,NULL,'Jana''s dog is Rex.',0.7,1795521673449,1795521673540,0);
CREATE TABLE spans(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  added INTEGER NOT NULL, touched INTEGER NOT NULL, superseded INTEGER NOT NULL, gone INTEGER NOT NULL,
  at INTEGER NOT NULL) STRICT;
INSERT INTO "spans" VALUES(1,'01a20d6e-6c2d-774e-81d9-ed49168f33cd','workspace/USER.md',1,1,0,0,0,0,1795521670190);
INSERT INTO "spans" VALUES(2,'01a20d6e-6db5-70eb-812c-40ee1ba68d54','workspace/memory/items/2026-11-24-anas-dog-is-rex-mw6n.md',1,8,1,0,0,0,1795521670639);
INSERT INTO "spans" VALUES(3,'01a20d6e-6f59-73df-9226-f06dbb88d3e6','workspace/memory/items/2026-11-24-bertas-dog-is-rex-tav7.md',1,8,1,0,0,0,1795521671079);
INSERT INTO "spans" VALUES(4,'01a20d6e-6f59-73df-9226-f06dbb88d3e6','01a20d6e-6cba-702b-9892-890479c1d0ed',1,13,0,0,0,0,1795521671101);
INSERT INTO "spans" VALUES(5,'01a20d6e-7122-74b2-a926-0402c27ef4dd','workspace/memory/items/2026-11-24-carlas-dog-is-rex-u8j8.md',1,8,1,0,0,0,1795521671526);
INSERT INTO "spans" VALUES(6,'01a20d6e-7289-72f2-b036-e12275f1f31f','workspace/memory/items/2026-11-24-doras-dog-is-rex-h9js.md',1,8,1,0,0,0,1795521671855);
INSERT INTO "spans" VALUES(7,'01a20d6e-7289-72f2-b036-e12275f1f31f','01a20d6e-6cba-702b-9892-890479c1d0ed',14,25,0,0,0,0,1795521671874);
INSERT INTO "spans" VALUES(8,'01a20d6e-7309-746b-87dd-0473a3331521','workspace/memory/items/2026-11-24-elsas-dog-is-rex-u286.md',1,8,1,0,0,0,1795521671990);
INSERT INTO "spans" VALUES(9,'01a20d6e-74d4-71d5-b3fb-aaa46009fd5c','workspace/memory/items/2026-11-24-fridas-dog-is-rex-8c7f.md',1,8,1,0,0,0,1795521672448);
INSERT INTO "spans" VALUES(10,'01a20d6e-74d4-71d5-b3fb-aaa46009fd5c','01a20d6e-6cba-702b-9892-890479c1d0ed',26,37,0,0,0,0,1795521672480);
INSERT INTO "spans" VALUES(11,'01a20d6e-7579-71a2-ae28-574549e9279c','workspace/memory/items/2026-11-24-gerdas-dog-is-rex-6w49.md',1,8,1,0,0,0,1795521672618);
INSERT INTO "spans" VALUES(12,'01a20d6e-7712-7311-98bf-070d8fd734a6','workspace/memory/items/2026-11-24-hannas-dog-is-rex-7k2d.md',1,8,1,0,0,0,1795521673046);
INSERT INTO "spans" VALUES(13,'01a20d6e-7712-7311-98bf-070d8fd734a6','01a20d6e-6cba-702b-9892-890479c1d0ed',38,49,0,0,0,0,1795521673083);
INSERT INTO "spans" VALUES(14,'01a20d6e-7812-75df-be47-6dd7f7cbfa4a','workspace/memory/items/2026-11-24-idas-dog-is-rex-grbj.md',1,8,1,0,0,0,1795521673309);
INSERT INTO "spans" VALUES(15,'01a20d6e-790a-7319-973a-e1289de1ddb9','workspace/memory/items/2026-11-24-janas-dog-is-rex-rx8d.md',1,8,1,0,0,0,1795521673540);
INSERT INTO "spans" VALUES(16,'01a20d6e-790a-7319-973a-e1289de1ddb9','01a20d6e-6cba-702b-9892-890479c1d0ed',50,61,0,0,0,0,1795521673580);
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
INSERT INTO "sqlite_sequence" VALUES('facts',10);
COMMIT;
PRAGMA user_version = 2;
