"""The record of a curate job, record.db (plugins/jobs/curation/record.hpp), as tests read and cut it."""
import contextlib, json, sqlite3


def _open(job):
    return contextlib.closing(sqlite3.connect(job / "record.db", timeout=60))


def outcomes(job):
    """Every outcome so far, in the order of its arrival: its line, with "id", "made", "input" (a key or None) and
    "files"."""
    if not (job / "record.db").exists():
        return []
    with _open(job) as db:
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'outcome'").fetchone():
            return []
        files = {}
        for name, outcome in db.execute("SELECT name, outcome FROM file"):
            files.setdefault(outcome, []).append(name)
        rows = db.execute(
            "SELECT outcome.id, made, input.key, line FROM outcome LEFT JOIN input ON input.id = outcome.input ORDER "
            "BY outcome.id")
        return [{**json.loads(line), "id": id, "made": made, "input": key, "files": files.get(id, [])}
                for id, made, key, line in rows]


def remove(job, ids):
    """Leaves the record and the folder as a run has them that was killed before these outcomes."""
    with _open(job) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.executemany("DELETE FROM outcome WHERE id = ?", [(id,) for id in ids])
        db.commit()
    (job / "summary.json").unlink(missing_ok=True)
