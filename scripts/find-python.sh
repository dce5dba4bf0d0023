#!/bin/sh
# Prints the path of a Python that can make the virtual environment: 3.11 or newer, with venv and pip.
# Where there is none it says on standard error what to install, and exits with 1.
#
#   scripts/find-python.sh             only looks
#   scripts/find-python.sh --install   first installs Debian's package when it is missing and this user may
#
# PYTHON=/path/to/python names one instead of searching. Plain POSIX shell: it runs before there is any Python.

set -u

candidates="${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}"

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

can_make_environments() {
    # Debian's python3 has a venv module without ensurepip until python3-venv is installed.
    "$1" -c 'import ensurepip, ssl, venv' >/dev/null 2>&1
}

find_complete() {
    for candidate in $candidates; do
        if is_new_enough "$candidate" && can_make_environments "$candidate"; then
            # pyenv and the like put small programs on PATH that change their mind by folder: name the real one.
            "$candidate" -c 'import sys; print(sys.executable)'
            return 0
        fi
    done
    return 1
}

find_new_enough() {
    for candidate in $candidates; do
        if is_new_enough "$candidate"; then
            "$candidate" -c 'import sys; print("python%d.%d" % sys.version_info[:2])'
            return 0
        fi
    done
    return 1
}

install_debian_package() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then
        as_root=""
    elif sudo -n true >/dev/null 2>&1; then
        as_root="sudo -n"
    else
        return 1
    fi
    echo "Installing the Debian package $1 ..." >&2
    # dpkg tells every step on standard output; errors come on the other one.
    limit=""
    command -v timeout >/dev/null 2>&1 && limit="timeout 600"
    { $as_root $limit apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive $limit apt-get install -y -qq "$1"; } \
        >/dev/null </dev/null
}

find_complete && exit 0

if found=$(find_new_enough); then
    # "python3" itself: its Debian package is python3-venv, which brings the one for its version.
    package="$found-venv"
else
    found=""
    package="python3-venv"
fi

if [ "${1:-}" = "--install" ] && install_debian_package "$package"; then
    find_complete && exit 0
fi

if [ -n "${PYTHON:-}" ] && [ -z "$found" ]; then
    echo "PYTHON=$PYTHON is not a Python 3.11 or newer. Leave PYTHON away, or name another one." >&2
elif [ -n "$found" ]; then
    echo "$found is here, but it cannot make virtual environments." >&2
    echo "On Debian and Ubuntu:  sudo apt-get install $package" >&2
else
    echo "NNI Web needs Python 3.11 or newer, and none was found on the PATH." >&2
    echo "On Debian 12, Ubuntu 24.04 and newer:  sudo apt-get install python3 python3-venv" >&2
    echo "On Ubuntu 22.04:                       sudo apt-get install python3.11 python3.11-venv" >&2
    echo "On macOS with Homebrew:                brew install python@3.11" >&2
fi
exit 1
