"""The project's settings with a data folder of their own, removed when the test process ends."""

import atexit
import os
import shutil
import tempfile

_folder = tempfile.mkdtemp(prefix="nniweb-tests-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
# The database is in memory's file system where there is one with room. It commits as in the server, and a flush takes
# no time there: a test of a worker commits a dozen times.
_MEMORY, _ROOM = "/dev/shm", 1 << 30
# the same tests on PostgreSQL: NNIWEB_TEST_DATABASE_URL=postgres://... (a user who may create databases); a database
# that is migrated already, NNIWEB_TEST_DATABASE_TEMPLATE, saves the migrations
_database_url = os.environ.get("NNIWEB_TEST_DATABASE_URL", "")
for _name in [name for name in os.environ if name.startswith("NNIWEB_") and not name.startswith("NNIWEB_TEST_")]:
    del os.environ[_name]  # what the developer's own server uses is none of the tests' business
if _database_url:
    os.environ["NNIWEB_DATABASE_URL"] = _database_url
# As in the tuner process, and before numpy is loaded: for tables of this size more threads only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["NNIWEB_CODE_ROOTS"] = "/"  # pytest puts the tests' folders where it likes
os.environ["NNIWEB_DATA"] = os.path.join(_folder, "data")

from nniweb.settings import *  # noqa: E402, F403

if _database_url and "NNIWEB_TEST_DATABASE_TEMPLATE" in os.environ:
    DATABASES["default"]["TEST"] = {"TEMPLATE": os.environ["NNIWEB_TEST_DATABASE_TEMPLATE"]}  # noqa: F405

if not _database_url and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM:
    _database_folder = tempfile.mkdtemp(prefix="nniweb-tests-", dir=_MEMORY)
    atexit.register(shutil.rmtree, _database_folder, ignore_errors=True)
    DATABASES["default"]["TEST"]["NAME"] = os.path.join(_database_folder, "test.sqlite3")  # noqa: F405

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Each client of a test makes the middleware anew, which would look through all files of the browser each time.
WHITENOISE_AUTOREFRESH = True
