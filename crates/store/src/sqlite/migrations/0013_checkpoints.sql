-- What gateways signed of their trails, where the others of a database find it.
CREATE TABLE checkpoints (
    row INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,
    entries INTEGER NOT NULL,
    checkpoint TEXT NOT NULL,
    left_at INTEGER NOT NULL,
    UNIQUE (origin, entries, checkpoint)
) STRICT;
CREATE INDEX checkpoints_by_row ON checkpoints (origin, row);
