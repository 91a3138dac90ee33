# Sourced by scripts/test: makes sure that the servers which tests start for themselves are installed.

# The same search as harness.postgres.find_programs, without waiting for Python to import levers.
postgres_found() {
    local folder
    for folder in "$(dirname "$(readlink -f "$(command -v initdb)")")" /usr/lib/postgresql/*/bin \
        "$(pg_config --bindir 2>/dev/null)"; do
        if [ -x "$folder/initdb" ] && [ -x "$folder/pg_ctl" ] && [ -x "$folder/postgres" ]; then
            return 0
        fi
    done
    return 1
}

prepare_chromium() {
    if command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 ||
        command -v google-chrome >/dev/null 2>&1; then
        return
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "The tests use a real browser: install Chromium (apt-get install chromium) and put it on PATH" >&2
        return 1
    fi
    echo "Installing Chromium for the tests (once) ..." >&2
    # A failure is noticed below.
    apt-get update -qq >/dev/null || true
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null || true
    if ! command -v chromium >/dev/null 2>&1; then
        echo "Chromium could not be installed: see above, or put one on PATH" >&2
        return 1
    fi
}

prepare_postgres() {
    local settings=/etc/postgresql-common/createcluster.d
    if postgres_found; then
        return
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "The tests start a PostgreSQL server of their own: install PostgreSQL (apt-get install postgresql)," \
            "or put the folder of initdb, pg_ctl and postgres on PATH" >&2
        return 1
    fi
    echo "Installing PostgreSQL for the tests (once) ..." >&2
    # The package makes and starts a server for the whole machine unless told not to; nobody asked for that one.
    mkdir -p "$settings"
    echo "create_main_cluster = false" >"$settings/levers.conf"
    # A failure is noticed below; the settings must go either way.
    apt-get update -qq >/dev/null || true
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends postgresql >/dev/null || true
    rm -f "$settings/levers.conf"
    if ! postgres_found; then
        echo "PostgreSQL could not be installed: see above, or put the folder of initdb, pg_ctl and postgres on PATH" >&2
        return 1
    fi
}
