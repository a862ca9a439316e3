-- How many transactions have written in each area. Each is counted while its area is locked.
CREATE TABLE areas (
    area TEXT COLLATE "C" PRIMARY KEY,
    written BIGINT NOT NULL
) WITH (fillfactor = 10);
INSERT INTO areas VALUES ('questions', 0), ('conversations', 0), ('budgets', 0), ('decisions', 0), ('queues', 0), ('tokens', 0),
    ('checkpoints', 0);

-- What the data went on from, one after the other: under a random name, and with what was written by then. They are numbered without gaps, which a sequence
-- has after a crash.
CREATE TABLE histories (
    history BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    began JSON NOT NULL
);

-- The one that goes on. It is empty after a crash, and where a standby has taken over.
CREATE UNLOGGED TABLE current_history (history BIGINT NOT NULL);
