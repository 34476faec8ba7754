-- The name that was said, where the fact was ever filed under another: without that alias it is a fact of this one again.
ALTER TABLE fact_sources ADD COLUMN said_of TEXT;
ALTER TABLE source_log ADD COLUMN said_of TEXT;
CREATE INDEX fact_sources_said_of ON fact_sources(said_of) WHERE said_of IS NOT NULL;
