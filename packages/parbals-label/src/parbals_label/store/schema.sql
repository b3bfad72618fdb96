CREATE TABLE meta(
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    checksum TEXT NOT NULL
);

CREATE TABLE items(
    position INTEGER PRIMARY KEY CHECK (position >= 0),
    id TEXT UNIQUE NOT NULL,
    content TEXT NOT NULL,
    checksum TEXT NOT NULL
);

CREATE TABLE answers(
    answer INTEGER PRIMARY KEY AUTOINCREMENT,
    position INTEGER NOT NULL REFERENCES items(position),
    annotator TEXT NOT NULL,
    revision INTEGER NOT NULL CHECK (revision >= 1),
    label TEXT,
    source TEXT NOT NULL
        CHECK (source IN ('person', 'import', 'machine', 'bulk', 'decision')),
    request TEXT UNIQUE,
    comment TEXT,
    created TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (position, annotator, revision)
);

CREATE TABLE passes(
    pass INTEGER PRIMARY KEY AUTOINCREMENT,
    position INTEGER NOT NULL REFERENCES items(position),
    annotator TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('skip', 'unsure', 'taken back')),
    request TEXT UNIQUE,
    comment TEXT,
    created TEXT NOT NULL,
    checksum TEXT NOT NULL
);

CREATE INDEX passes_by_item ON passes(position, annotator);

-- Requests that repeated what was there: ``number`` is the row of the table ``kind``.
CREATE TABLE requests(
    repeat INTEGER PRIMARY KEY AUTOINCREMENT,
    position INTEGER NOT NULL REFERENCES items(position),
    annotator TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('answers', 'passes')),
    number INTEGER NOT NULL,
    request TEXT UNIQUE NOT NULL,
    created TEXT NOT NULL,
    checksum TEXT NOT NULL
);

CREATE TABLE batches(
    batch INTEGER PRIMARY KEY,
    created TEXT NOT NULL,
    strategy TEXT NOT NULL,
    seed INTEGER,
    settings TEXT NOT NULL
);

CREATE TABLE batch_items(
    batch INTEGER NOT NULL REFERENCES batches(batch),
    position INTEGER NOT NULL REFERENCES items(position),
    rank INTEGER NOT NULL,
    score REAL,
    initial_score REAL,
    PRIMARY KEY (batch, position)
);

CREATE INDEX batch_items_by_item ON batch_items(position);

-- queued: the item waits for anybody on the labelling page, else one person has it as a file.
CREATE TABLE leases(
    position INTEGER PRIMARY KEY REFERENCES items(position),
    batch INTEGER NOT NULL,
    annotator TEXT,
    expires REAL,
    queued INTEGER NOT NULL,
    FOREIGN KEY (batch, position) REFERENCES batch_items(batch, position)
);

-- Whom an item of the page was ever given to: an answer may come after its lease has ended.
CREATE TABLE given(
    position INTEGER NOT NULL REFERENCES items(position),
    annotator TEXT NOT NULL,
    PRIMARY KEY (position, annotator)
) WITHOUT ROWID;

-- who: a name, origin: this machine, or the address that a request came from.
CREATE TABLE events(
    event INTEGER PRIMARY KEY AUTOINCREMENT,
    created TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    who TEXT NOT NULL,
    origin TEXT NOT NULL
);

CREATE TABLE reports(
    report INTEGER PRIMARY KEY,
    created TEXT NOT NULL,
    n_labels INTEGER NOT NULL,
    body TEXT NOT NULL
);

-- A link and a session are kept as hashes: who reads this file cannot open the page with it.
CREATE TABLE people(
    key TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'annotator')),
    link TEXT UNIQUE,
    created TEXT NOT NULL,
    expires REAL
);

CREATE TABLE sessions(
    session TEXT PRIMARY KEY NOT NULL,
    key TEXT NOT NULL,
    link TEXT NOT NULL,
    place TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL NOT NULL
);
