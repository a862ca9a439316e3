CREATE TABLE sessions (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    agent TEXT NOT NULL,
    workspace TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER,
    end_reason TEXT,
    resumed_from TEXT,
    meta TEXT NOT NULL,
    last_seq INTEGER NOT NULL DEFAULT 0,
    CHECK ((ended_at IS NULL) = (end_reason IS NULL))
) STRICT;
CREATE INDEX sessions_by_key ON sessions (key, created_at);
CREATE INDEX sessions_by_activity ON sessions (updated_at);

CREATE TABLE leases (
    session TEXT PRIMARY KEY REFERENCES sessions (id),
    holder TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
    row INTEGER PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id),
    id TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    outcome TEXT,
    UNIQUE (session, id),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;

-- Rows are only ever added at the end, overwritten in place by zeros of the same length, and never deleted
-- (except before a VACUUM): what makes SQLite move rows leaves copies of them behind.
CREATE TABLE texts (
    text_id INTEGER PRIMARY KEY AUTOINCREMENT,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE entries (
    row INTEGER PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    run TEXT,
    at INTEGER NOT NULL,
    tokens INTEGER,
    text INTEGER NOT NULL UNIQUE REFERENCES texts (text_id),
    UNIQUE (session, seq),
    UNIQUE (session, id)
) STRICT;

-- One row while text that was taken out may still be in the write-ahead log.
CREATE TABLE pending_erasure (one INTEGER PRIMARY KEY CHECK (one = 1)) STRICT;

-- Approvals also come from hosts whose sessions are not kept here, hence no foreign key.
CREATE TABLE approvals (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    code TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    run TEXT,
    digest TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    status TEXT NOT NULL,
    text INTEGER NOT NULL UNIQUE REFERENCES texts (text_id),
    state TEXT NOT NULL
) STRICT;
CREATE INDEX approvals_by_status ON approvals (status, expires_at);
CREATE INDEX approvals_by_run ON approvals (session, run);
CREATE INDEX approvals_by_digest ON approvals (digest);

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

CREATE TABLE decisions (
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    call TEXT NOT NULL,
    decision TEXT NOT NULL,
    PRIMARY KEY (session, run, call)
) STRICT;

CREATE TABLE injections (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    session_key TEXT NOT NULL,
    owner TEXT NOT NULL,
    text TEXT NOT NULL,
    placement TEXT NOT NULL,
    idempotency_key TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    taken_by TEXT
) STRICT;
CREATE INDEX injections_by_session ON injections (session_key, owner);
CREATE INDEX injections_by_run ON injections (taken_by);

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    session TEXT,
    run TEXT,
    body TEXT NOT NULL,
    prev TEXT NOT NULL,
    digest TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_is_never_updated BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
