# Sourced by the other scripts: makes .venv once, and again only when pyproject.toml changes.
# Usage: prepare_environment EXTRA   (EXTRA is one of the optional dependency groups, e.g. all or dev)

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.14 python3.13 python3.12 python3.11 python3 python; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    echo "levers needs Python 3.11 or newer with the venv module; install it, or set PYTHON=/path/to/python3" >&2
    return 1
}

prepare_environment() {
    local extra=$1 python wanted stamp
    stamp=.venv/.levers-$extra
    wanted=$(cksum <pyproject.toml)
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    if [ ! -x .venv/bin/python ]; then
        python=$(find_python)
        echo "Creating .venv with $($python --version) ..." >&2
        "$python" -m venv .venv
    fi
    echo "Installing levers[$extra] into .venv (once) ..." >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$extra]"
    echo "$wanted" >"$stamp"
}
