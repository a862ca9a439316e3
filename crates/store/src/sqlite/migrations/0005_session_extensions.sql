-- Small state that plugins keep with a conversation. A write makes a new row, so that revisions are never used twice.
CREATE TABLE extensions (
    revision INTEGER PRIMARY KEY AUTOINCREMENT,
    session_key TEXT NOT NULL,
    owner TEXT NOT NULL,
    namespace TEXT NOT NULL,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (session_key, owner, namespace)
) STRICT;
CREATE INDEX extensions_by_owner ON extensions (owner);
