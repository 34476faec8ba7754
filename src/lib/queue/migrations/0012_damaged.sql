-- A row whose JSON the disk damaged has no place in the index; without the guard it could be neither changed nor removed.
DROP INDEX inbox_subagents;
CREATE INDEX inbox_subagents ON inbox(CASE WHEN json_valid(envelope) THEN envelope ->> '$.task.run_id' END)
  WHERE CASE WHEN json_valid(envelope) THEN envelope ->> '$.task.run_id' END IS NOT NULL;
