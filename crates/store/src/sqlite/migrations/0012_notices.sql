-- Questions that somebody is told of on a surface: who tells it until when, what the surface calls the message, and whether that was
-- withdrawn.
CREATE TABLE notices (
    approval TEXT NOT NULL,
    surface TEXT NOT NULL,
    place TEXT NOT NULL,
    holder TEXT NOT NULL,
    held_until INTEGER NOT NULL,
    reference TEXT,
    withdrawn INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (approval, surface, place)
) STRICT;
CREATE INDEX notices_to_withdraw ON notices (surface) WHERE reference IS NOT NULL AND withdrawn = 0;

-- What buttons stand for. The characters of a handle are not here, only their SHA-256.
CREATE TABLE action_handles (
    hash TEXT PRIMARY KEY,
    approval TEXT NOT NULL,
    digest TEXT NOT NULL,
    decision TEXT NOT NULL,
    surface TEXT NOT NULL,
    place TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX action_handles_by_approval ON action_handles (approval);
CREATE INDEX action_handles_by_end ON action_handles (expires_at);

-- Who used which. Each person does it once.
CREATE TABLE handle_uses (
    hash TEXT NOT NULL,
    who TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (hash, who)
) STRICT;

CREATE TRIGGER handle_deleted_with_uses AFTER DELETE ON action_handles
BEGIN
    DELETE FROM handle_uses WHERE hash = old.hash;
END;

CREATE TABLE surface_deliveries (
    surface TEXT NOT NULL,
    id TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (surface, id)
) STRICT;
CREATE INDEX surface_deliveries_by_end ON surface_deliveries (until);

CREATE TABLE surface_leases (
    surface TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT;

CREATE TRIGGER approval_deleted_with_notices AFTER DELETE ON approvals
BEGIN
    DELETE FROM notices WHERE approval = old.id;
    DELETE FROM action_handles WHERE approval = old.id;
END;
