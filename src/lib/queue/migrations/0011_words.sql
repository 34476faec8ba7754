-- Questions that are answered with words: how, and the choices, as JSON.
ALTER TABLE approvals ADD COLUMN wanted TEXT;
