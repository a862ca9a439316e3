-- Grants are bound to a place and a question. Those given before were bound to neither, and nobody can say now where they
-- were meant to hold: they are kept to be shown, and count no longer.
ALTER TABLE grants RENAME TO void_grants;
DROP INDEX grants_by_tool;

CREATE TABLE grants (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    granted TEXT NOT NULL,
    revoked_at INTEGER,
    uses INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX grants_by_tool ON grants (agent, tool_name);
