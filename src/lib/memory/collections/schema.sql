-- The tables of a collection, in a schema of its own, which alone is in search_path: elsewhere others may have put functions
-- and operators under names that are used here.
-- A row is seen by the roles that `readers` admits to its scope, and by the owner of the tables.

CREATE TABLE about(
  version integer NOT NULL, format text NOT NULL,
  model text NOT NULL DEFAULT '', dims integer NOT NULL DEFAULT 0,
  made_at timestamptz NOT NULL DEFAULT now());

CREATE TABLE readers(
  role regrole NOT NULL, scope text NOT NULL, writes boolean NOT NULL DEFAULT false,
  PRIMARY KEY (role, scope));

-- `source` is a directory, by the name it was filled under; `chunks` are numbered from id * 2^20 on.
CREATE TABLE files(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope text NOT NULL, source text NOT NULL, path text NOT NULL,
  sha256 bytea NOT NULL, rules text NOT NULL, time bigint NOT NULL, bytes bigint NOT NULL,
  units bigint NOT NULL, words bigint NOT NULL, chunks bigint NOT NULL,
  kind text NOT NULL, tags text[] NOT NULL,
  UNIQUE (scope, source, path));

-- What a file looked like to each host that has it: unchanged, it is not read again.
CREATE TABLE looks(
  file bigint NOT NULL REFERENCES files ON DELETE CASCADE, host text NOT NULL,
  size bigint NOT NULL, mtime bigint NOT NULL, ctime bigint NOT NULL,
  PRIMARY KEY (file, host));

-- Texts and words are kept beside the rows, forty of which then lie in a page: a search by words reads many rows and few texts.
CREATE TABLE chunks(
  id bigint PRIMARY KEY, file bigint NOT NULL, scope text NOT NULL, day integer NOT NULL,
  start_line bigint NOT NULL, end_line bigint NOT NULL, units bytea NOT NULL, text text NOT NULL,
  hash bytea NOT NULL, words tsvector NOT NULL) WITH (toast_tuple_target = 256);
CREATE INDEX chunks_words ON chunks USING gin (words);
CREATE INDEX chunks_hash ON chunks (scope, hash);

-- By the SHA-256 of the text: what is said twice, or filled in again, costs nothing. Its column `embedding`, of pgvector's type,
-- is added by store.rs, which knows in which schema that is; NULL for a text without known words.
CREATE TABLE vectors(
  scope text NOT NULL, hash bytea NOT NULL,
  PRIMARY KEY (scope, hash));

-- In how many chunks a word stands, and how many there are: as of the last fill that counted.
CREATE TABLE word_counts(
  scope text NOT NULL, word text NOT NULL, chunks bigint NOT NULL,
  PRIMARY KEY (scope, word));
CREATE TABLE totals(
  scope text PRIMARY KEY, files bigint NOT NULL, chunks bigint NOT NULL, units bigint NOT NULL, words bigint NOT NULL,
  counted_chunks bigint NOT NULL DEFAULT 0, counted_at timestamptz NOT NULL DEFAULT now());

CREATE TABLE fills(
  scope text NOT NULL, source text NOT NULL, host text NOT NULL, directory text NOT NULL,
  began_at timestamptz NOT NULL DEFAULT now(), ended_at timestamptz, skew_ms bigint NOT NULL,
  files bigint NOT NULL DEFAULT 0, lacking text NOT NULL DEFAULT '',
  -- How often it was filled, and the usual pause between two fills.
  times bigint NOT NULL DEFAULT 1, pause_ms bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, source, host));

-- Row level security. The list of scopes is worked out once a statement.
ALTER TABLE readers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON readers FOR SELECT USING (pg_has_role(role::oid, 'USAGE'));
DO $$
DECLARE name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['files', 'chunks', 'vectors', 'word_counts', 'totals', 'fills'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY reads ON %I FOR SELECT
      USING (scope = ANY (ARRAY(SELECT r.scope FROM readers r)))', name);
    EXECUTE format('CREATE POLICY writes ON %I
      USING (scope = ANY (ARRAY(SELECT r.scope FROM readers r WHERE r.writes)))
      WITH CHECK (scope = ANY (ARRAY(SELECT r.scope FROM readers r WHERE r.writes)))', name);
  END LOOP;
END $$;
ALTER TABLE looks ENABLE ROW LEVEL SECURITY;
CREATE POLICY reads ON looks FOR SELECT USING (EXISTS (SELECT 1 FROM files f WHERE f.id = file));
CREATE POLICY writes ON looks
  USING (EXISTS (SELECT 1 FROM files f JOIN readers r ON r.scope = f.scope AND r.writes WHERE f.id = file))
  WITH CHECK (EXISTS (SELECT 1 FROM files f JOIN readers r ON r.scope = f.scope AND r.writes WHERE f.id = file));

-- The chunks with the most of a query's weight in them. Each of `terms` leads to chunks that have a word, whose weight is
-- beside it: the index alone says which, no text is looked at, and of one term `weighed` chunks count at most. Beneath row level
-- security `@@` cannot use the index, because it is not marked leakproof: so this runs as the owner, and asks `readers` itself,
-- for the role that signed in. The planner knows nothing of a term: without its bounds it would read the whole table.
CREATE FUNCTION word_candidates(
  terms tsquery[], weights real[], first_day integer, last_day integer, wanted_kind text, wanted_tag text,
  weighed integer, most integer)
RETURNS TABLE(id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET work_mem = '32MB'
AS $$
  SELECT found.id FROM unnest(terms, weights) AS t(term, weight)
  CROSS JOIN LATERAL (
    SELECT c.id, c.day FROM chunks c
    WHERE c.words @@ t.term
      AND (c.scope = ANY (ARRAY(SELECT r.scope FROM readers r WHERE pg_has_role(session_user, r.role::oid, 'USAGE')))
        OR pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = 'chunks'::regclass), 'USAGE'))
      AND c.day BETWEEN first_day AND last_day
      AND (wanted_kind IS NULL AND wanted_tag IS NULL OR EXISTS (
        SELECT 1 FROM files f WHERE f.id = c.file AND (wanted_kind IS NULL OR lower(f.kind) = wanted_kind)
          AND (wanted_tag IS NULL OR wanted_tag = ANY (f.tags))))
    LIMIT weighed) found
  GROUP BY found.id, found.day ORDER BY sum(t.weight) DESC, found.day DESC, found.id DESC LIMIT most
$$;

-- Admits a role to a scope: SELECT admit('bob', 'shared'); one that fills it: SELECT admit('filler', 'shared', true).
CREATE FUNCTION admit(new_role name, new_scope text, may_write boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), new_role);
  EXECUTE format('GRANT SELECT ON about, readers, files, looks, chunks, vectors, word_counts, totals, fills TO %I', new_role);
  IF may_write THEN
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON files, looks, chunks, vectors, word_counts, totals, fills TO %I', new_role);
  END IF;
  INSERT INTO readers VALUES (quote_ident(new_role)::regrole, new_scope, may_write)
    ON CONFLICT (role, scope) DO UPDATE SET writes = excluded.writes;
END $$;
REVOKE ALL ON FUNCTION admit FROM PUBLIC;
