-- Decisions can be asked for by the call alone, and grow old.
ALTER TABLE decisions ADD COLUMN decided_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX decisions_by_call ON decisions (call, decided_at);
CREATE INDEX decisions_by_age ON decisions (decided_at);

-- What was spent of each budget in each window, reservations included.
CREATE TABLE budgets (
    counter TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER,
    spent INTEGER NOT NULL,
    PRIMARY KEY (counter, since)
) STRICT;

CREATE INDEX budgets_by_end ON budgets (until);

-- What of it is an estimate that has not been settled.
CREATE TABLE reservations (
    id TEXT NOT NULL,
    counter TEXT NOT NULL,
    since INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (id, counter, since)
) STRICT;

CREATE INDEX reservations_by_counter ON reservations (counter, since);
