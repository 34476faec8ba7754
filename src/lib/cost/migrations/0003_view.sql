-- For whoever asks this database in SQL: seconds, and money as a number of US dollars.
CREATE VIEW costs_usd AS
SELECT ts / 1000 AS timestamp, session_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
  cost_nano_usd / 1e9 AS cost_usd
FROM costs;
