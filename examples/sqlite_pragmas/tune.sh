#!/bin/sh
# Tune nine pragmas of SQLite on a job that writes and reads:
#   sh tune.sh --budget 150 [other options of levers run]
# The storage is levers.db here, so that the same command goes on. The baseline is what SQLite does by itself.
cd "$(dirname "$0")" || exit 2
exec ${LEVERS:-levers} run pragmas --space pragmas.toml --goal minimize --metric "${METRIC:-log}: (\S+)" --baseline "$(cat default.txt)" "$@" \
    -- ${PYTHON:-python3} workload.py journal_mode={journal_mode} synchronous={synchronous} cache_size={cache_size} page_size={page_size} temp_store={temp_store} mmap_size={mmap_size} locking_mode={locking_mode} wal_autocheckpoint={wal_autocheckpoint} auto_vacuum={auto_vacuum}
