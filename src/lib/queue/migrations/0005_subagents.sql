-- Sub-agents: the report in which whoever sent one heard of its end, and whether words of others may be in
-- its answer.
ALTER TABLE inbox ADD COLUMN told_in TEXT;
ALTER TABLE inbox ADD COLUMN tainted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX inbox_subagents ON inbox(envelope ->> '$.task.run_id') WHERE envelope ->> '$.task.run_id' IS NOT NULL;
CREATE INDEX inbox_told ON inbox(told_in) WHERE told_in IS NOT NULL;
