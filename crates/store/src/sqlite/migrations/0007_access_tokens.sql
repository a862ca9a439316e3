-- Tokens for gateways: what was said when each was made, with its SHA-256, and never the token itself.
CREATE TABLE access_tokens (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    made TEXT NOT NULL,
    ends_at INTEGER NOT NULL,
    revoked_at INTEGER,
    last_used_at INTEGER
) STRICT;
CREATE INDEX access_tokens_by_end ON access_tokens (ends_at) WHERE revoked_at IS NULL;
