"""PostgreSQL, Redis, nginx and a machine with sshd as images made of Debian's packages: none can be fetched without a
registry of images.

They take what compose.yml gives the official images: PostgreSQL its user, database and password by variables, Redis and
nginx the command of a program.
"""

from __future__ import annotations

from pathlib import Path

from tests.deploy.container_engine import ContainerEngine
from tests.deploy.debian_tree import debian_tree

TREE = "localhost/servers-of-debian:1"
PACKAGES = ("postgresql", "redis-server", "nginx-light", "openssh-server", "python3")
#: A machine for trials, and who logs in there.
MACHINE, USER, PASSWORD = "localhost/machine-with-sshd:1", "trials", "of-tests"
#: As the official image does it: the folder is filled once, and the password asked for from other hosts.
POSTGRESQL = """#!/bin/sh
set -eu
export PGDATA=/var/lib/postgresql/data/pgdata
programs=$(echo /usr/lib/postgresql/*/bin)
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
mkdir -p /var/run/postgresql && chown postgres /var/run/postgresql
if [ ! -f "$PGDATA/ready" ]; then
    chown postgres /var/lib/postgresql/data
    rm -rf "$PGDATA"
    cp "$POSTGRES_PASSWORD_FILE" /tmp/password && chown postgres /tmp/password
    as_postgres "$programs/initdb" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust \\
        --auth-host=scram-sha-256 --encoding=UTF8 --locale=C --no-sync
    rm /tmp/password
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    as_postgres "$programs/pg_ctl" --wait -o "-c listen_addresses=" start
    "$programs/createdb" --username="$POSTGRES_USER" "$POSTGRES_DB"
    as_postgres "$programs/pg_ctl" --wait stop
    touch "$PGDATA/ready"
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups "$programs/postgres" -c "listen_addresses=*"
"""
CONTAINERFILES = {
    "docker.io/library/postgres:16": (
        "COPY postgresql.sh /postgresql.sh\nSTOPSIGNAL SIGINT\n"
        'VOLUME /var/lib/postgresql/data\nCMD ["sh", "/postgresql.sh"]\n'),
    "docker.io/library/redis:7": 'CMD ["redis-server"]\n',
    "docker.io/library/nginx:1.28": (
        'RUN rm -f /etc/nginx/sites-enabled/default\nSTOPSIGNAL SIGQUIT\nCMD ["nginx", "-g", "daemon off;"]\n'),
    MACHINE: (
        f"RUN useradd --create-home --shell /bin/sh {USER} && echo {USER}:{PASSWORD} | chpasswd && mkdir -p /run/sshd\n"
        'CMD ["/usr/sbin/sshd", "-D", "-e", "-o", "UsePAM=no"]\n'),
}


def make_server_images(engine: ContainerEngine, folder: Path) -> None:
    """Under the names that compose.yml uses, and MACHINE. ``folder``: new, for what the builds read."""
    engine.import_tree(debian_tree(PACKAGES), TREE)
    folder.mkdir()
    (folder / "postgresql.sh").write_text(POSTGRESQL)
    for name, lines in CONTAINERFILES.items():
        containerfile = folder / "Containerfile"
        containerfile.write_text(f"FROM {TREE}\n{lines}")
        engine.podman("build", "--isolation=chroot", "--file", containerfile, "--tag", name, folder)
