"""Settings. Nothing has to be set: then it is one process, SQLite and a data folder of its own.

Every variable read here is explained in docs/settings.md.
"""

import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from nniweb import mail_settings
from nniweb.environment import boolean, days, days_or_word, json_object, names, number, text
from nniweb.http.proxies import read_networks
from nniweb.storage import own_files
from trainingservice.words.shown_value import shown

BASE_DIR = own_files.FOLDER


def _needs_package(module: str, variable: str, list_name: str = "scale") -> None:
    if not _is_importable(module):
        raise ImproperlyConfigured(f"{variable} is set, which needs additional packages. Install them: python -m pip "
                                   f"install 'nniweb[{list_name}]' (in a checkout: -r requirements/{list_name}.txt)")


def _is_importable(module: str) -> bool:
    try:
        return bool(module) and importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


# --- where things are ------------------------------------------------------------------------
DATA_FOLDER = Path(text("NNIWEB_DATA", str(own_files.default_data_folder()))).expanduser().absolute()
# empty where none is given: it is kept in the data folder, which nniweb.apps prepares; loading settings makes nothing
INSTALLATION_ID = text("NNIWEB_INSTALLATION")
HOST = text("NNIWEB_HOST", "127.0.0.1")
PORT = number("NNIWEB_PORT", 8080, most=65535)
PUBLIC_URL = text("NNIWEB_PUBLIC_URL").rstrip("/")
# the authority behind PUBLIC_URL's certificate, where trial machines do not know it
CA_FILE = Path(text("NNIWEB_CA_FILE")).expanduser().absolute() if text("NNIWEB_CA_FILE") else None
if CA_FILE is not None and not os.access(CA_FILE, os.R_OK):
    raise ImproperlyConfigured(f"NNIWEB_CA_FILE names {CA_FILE}, which cannot be read.")
try:
    TRUSTED_PROXIES = read_networks(names("NNIWEB_TRUSTED_PROXIES"))
except ValueError as error:
    raise ImproperlyConfigured(f"NNIWEB_TRUSTED_PROXIES: {error}.") from None
PLAIN_HTTP = boolean("NNIWEB_PLAIN_HTTP", False)
WORKER_HOST = text("NNIWEB_WORKER_HOST", "127.0.0.1")
WORKER_PORT = number("NNIWEB_WORKER_PORT", 0, most=65535)
DEMO = boolean("NNIWEB_DEMO", True)
UPGRADE_BACKUP = boolean("NNIWEB_UPGRADE_BACKUP", True)
LOW_SPACE_BYTES = number("NNIWEB_LOW_SPACE_MB", 500) * 1_000_000
# days that what is not a result is kept, where an experiment says nothing else; None: for ever
KEEP_DAYS = {"output": days("NNIWEB_KEEP_OUTPUT_DAYS"), "readings": days("NNIWEB_KEEP_READINGS_DAYS"),
             "files": days("NNIWEB_KEEP_FILES_DAYS"), "code": days("NNIWEB_KEEP_CODE_DAYS")}
KEEP_JOBS = days_or_word("NNIWEB_KEEP_JOBS_DAYS", "saved", ("saved", "forever"))
EXTRA_PLATFORMS = text("NNIWEB_EXTRA_PLATFORMS")
# Where code folders may lie that people name over the web; who starts a command here may name any.
CODE_ROOTS = tuple(Path(name).expanduser().absolute() for name in names(
    "NNIWEB_CODE_ROOTS", f"{os.path.expanduser('~')},{BASE_DIR}"))
# NAME_FILE of each variable that may be given so: files with secrets, which nobody may name as an experiment's
SECRET_FILES = tuple(Path(path).expanduser().absolute() for name, path in sorted(os.environ.items())
                     if path and re.fullmatch(r"NNIWEB_[A-Z_]+_FILE", name) and name != "NNIWEB_CA_FILE")
GIT_PRIVATE_ADDRESSES = boolean("NNIWEB_GIT_PRIVATE_ADDRESSES", False)
GIT_MAX_BYTES = number("NNIWEB_GIT_MAX_MB", 500) * 1_000_000
GIT_SECONDS = number("NNIWEB_GIT_SECONDS", 300, least=1)

# --- tuners of people's own: what they have when their experiment is over
TUNER_EXIT_SECONDS = number("NNIWEB_TUNER_EXIT_SECONDS", 300)

# --- TensorBoard: how many at a time, when one ends that nobody looks at, what one copies of its trials
TENSORBOARD_MOST = number("NNIWEB_TENSORBOARD_MOST", 5)
TENSORBOARD_IDLE_MINUTES = number("NNIWEB_TENSORBOARD_IDLE_MINUTES", 30, least=1, most=1_000_000)
TENSORBOARD_BYTES = number("NNIWEB_TENSORBOARD_MB", 1000) * 1_000_000

# --- mail and webhooks -----------------------------------------------------------------------
MAIL_URL = text("NNIWEB_MAIL_URL")
try:
    globals().update(mail_settings.mail_settings(MAIL_URL))
except ValueError as error:
    raise ImproperlyConfigured(f"NNIWEB_MAIL_URL {error}.") from None
DEFAULT_FROM_EMAIL = SERVER_EMAIL = text("NNIWEB_MAIL_FROM", "NNI Web <nniweb@localhost>")
WEBHOOK_PRIVATE_ADDRESSES = boolean("NNIWEB_WEBHOOK_PRIVATE_ADDRESSES", False)

# --- Django ----------------------------------------------------------------------------------
SECRET_KEY = text("NNIWEB_SECRET_KEY")  # empty: as with INSTALLATION_ID
# empty: those of the data folder, which sealing.py reads, so that they can be changed while this runs
SEAL_KEYS = names("NNIWEB_SEAL_KEYS")
DEBUG = boolean("NNIWEB_DEBUG", False)
ALLOWED_HOSTS = names("NNIWEB_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
if PUBLIC_URL:
    from urllib.parse import urlsplit

    ALLOWED_HOSTS.append(urlsplit(PUBLIC_URL).hostname or "")
    CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
BEHIND_TLS = PUBLIC_URL.startswith("https://")
# whether others than this machine may reach the server; nniweb.middleware.require_tls says the rule
MAY_BE_REACHED = BEHIND_TLS or bool(TRUSTED_PROXIES) or PLAIN_HTTP
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
# sent where the visitor came through TLS, as a trusted proxy says
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if BEHIND_TLS else 0
SESSION_COOKIE_AGE = 30 * 24 * 3600
SESSION_ENGINE = "nniweb.experiments.access.sessions"

INSTALLED_APPS = [
    "daphne",
    "nniweb.admin_site.NniWebAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "nniweb",
    "nniweb.experiments",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "nniweb.middleware.static_files.StaticFilesMiddleware",
    "nniweb.middleware.private_answers.PrivateAnswersMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "nniweb.experiments.access.request_actor.WhoAsksMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "nniweb.middleware.dry_runs.DryRunsMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
# nothing inline, nothing from elsewhere; the admin's and the API pages' exceptions stand beside their views
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"], "script-src": ["'self'"], "style-src": ["'self'"], "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"], "font-src": ["'self'"], "form-action": ["'self'"], "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"], "report-uri": ["/csp-report/"],
    },
}
DEFAULT_EXCEPTION_REPORTER_FILTER = "nniweb.http.error_reports.NoValues"
SECURE_REFERRER_POLICY = "same-origin"
# what the domain's owner decides at the proxy: subdomains, browsers' own lists, sending clear text on to TLS (what of
# it comes over a network the server refuses); docs/security.md says so
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W008", "security.W021"]
ROOT_URLCONF = "nniweb.urls"
ASGI_APPLICATION = "nniweb.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "nniweb.http.page_templates.PageTemplates",
        "NAME": "django",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["nniweb.dashboard.words", "nniweb.dashboard.markdown", "nniweb.dashboard.what_to_type",
                         "nniweb.dashboard.reference.docs_links"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "nniweb.dashboard.installation_trouble.above_every_page",
            ],
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "experiments.User"
# the second one tries no password, since the first one's no is the last word: sessions and links name it
AUTHENTICATION_BACKENDS = ["nniweb.experiments.access.sign_in_attempts.CountedPasswords",
                           "django.contrib.auth.backends.ModelBackend"]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "experiments"
LOGOUT_REDIRECT_URL = "sign-in"
PASSWORD_RESET_TIMEOUT = 3600
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
for _prefix, _folder in (("echarts", "echarts/dist"), ("swagger-ui", "swagger-ui-dist")):
    if (BASE_DIR / "node_modules" / _folder).is_dir():
        STATICFILES_DIRS.append((_prefix, BASE_DIR / "node_modules" / _folder))  # type: ignore[arg-type]
STATIC_ROOT = DATA_FOLDER / "static"
WHITENOISE_USE_FINDERS = True
# files kept for experiments (code archives): never served as they are
STORAGES = {
    "default": {"BACKEND": "nniweb.storage.durable_storage.DurableFileSystemStorage",
                "OPTIONS": {"location": str(DATA_FOLDER / "files"), "directory_permissions_mode": 0o700,
                            "file_permissions_mode": 0o600}},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}


def _storage_class(variable: str) -> str:
    name = text(variable)
    if name == "nniweb.storage.s3_storage.S3Storage":
        _needs_package("minio", variable, "s3")
    if name and not _is_importable(name.rpartition(".")[0]):
        raise ImproperlyConfigured(f"{variable} must be the dotted name of a storage class of Django, not "
                                   f"{shown(name)}.")
    return name


# all of them may lie elsewhere, and checkpoints elsewhere than the other files
_file_storage, _file_options = _storage_class("NNIWEB_FILE_STORAGE"), json_object("NNIWEB_FILE_STORAGE_OPTIONS")
if _file_storage:
    STORAGES["default"] = {"BACKEND": "nniweb.storage.elsewhere.StorageElsewhere", "OPTIONS": {
        "backend": _file_storage, "options": _file_options, "folder": str(DATA_FOLDER / "files")}}
_checkpoint_storage = _storage_class("NNIWEB_CHECKPOINT_STORAGE")
_checkpoint_options = json_object("NNIWEB_CHECKPOINT_STORAGE_OPTIONS")
if _checkpoint_storage:
    STORAGES["checkpoints"] = {"BACKEND": _checkpoint_storage, "OPTIONS": _checkpoint_options}
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024

# --- database --------------------------------------------------------------------------------
_database_url = text("NNIWEB_DATABASE_URL")
if _database_url:
    DATABASES: dict[str, Any] = {"default": dj_database_url.parse(_database_url)}
    if "postgresql" in DATABASES["default"]["ENGINE"]:
        _needs_package("psycopg_pool", "NNIWEB_DATABASE_URL")
        # Threads hold a connection while they work with it, not in between, and there are more of them than
        # connections. Who waits longer than the timeout gets an error, and does later what it was about to do. A server
        # that is away is tried each few seconds: after the pool's own 5 minutes of growing pauses it would be back for
        # long before anybody noticed.
        _options = DATABASES["default"].setdefault("OPTIONS", {})
        # a process that is frozen in the middle of a transaction, or whose host lost its power, holds rows no longer
        # than it holds its leases
        _options.setdefault("options", "-c idle_in_transaction_session_timeout=10000")
        # a server that is gone without a word (its host lost its power, a network that swallows) is noticed within
        # about 15 s, not after the operating system's two hours; what stands in the URL's query counts more
        for _name, _value in (("connect_timeout", 5), ("keepalives", 1), ("keepalives_idle", 5),
                              ("keepalives_interval", 3), ("keepalives_count", 3), ("tcp_user_timeout", 15_000)):
            _options.setdefault(_name, _value)
        from nniweb.database.silent_postgresql import AnsweredConnection

        _options["pool"] = {
            "connection_class": AnsweredConnection,
            "min_size": 1, "max_size": max(2, number("NNIWEB_DATABASE_CONNECTIONS", 20, least=1)), "timeout": 10,
            "reconnect_timeout": 4}
        # one empty query each time a connection is taken: those that a restart of the server broke are never seen
        DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
else:
    DATABASES = {
        "default": {
            "ENGINE": "nniweb.database.sqlite",
            "NAME": DATA_FOLDER / "nniweb.sqlite3",
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                # an acknowledged report must survive power loss, hence FULL; WAL lets readers go on meanwhile
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;"
                                "PRAGMA mmap_size=268435456; PRAGMA cache_size=-16000;",
            },
            "TEST": {"NAME": DATA_FOLDER / "test.sqlite3"},
        }
    }
    # REST framework loads these where psycopg is installed, and it: a tenth of a start, for nothing with SQLite
    sys.modules.setdefault("django.contrib.postgres.fields", None)  # type: ignore[arg-type]  # such a module is missing
# 0: a request's thread gives its connection back; kept ones leak descriptors under ASGI
DATABASES["default"]["CONN_MAX_AGE"] = 0

# --- the bell between processes ----------------------------------------------------------------
REDIS_URL = text("NNIWEB_REDIS_URL")
if REDIS_URL:
    _needs_package("channels_redis", "NNIWEB_REDIS_URL")
    if not REDIS_URL.startswith(("redis://", "rediss://", "unix://")):
        raise ImproperlyConfigured("NNIWEB_REDIS_URL must begin with redis://, rediss:// or unix://, such as "
                                   "redis://host:6379/0.")
    # not "default": each websocket would then listen at Redis for messages that nobody sends, and fail without it
    CHANNEL_LAYERS = {"bell": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {
        "hosts": [{"address": REDIS_URL}]}}}  # nniweb.apps adds the prefix, which names the installation

# --- single sign-on ----------------------------------------------------------------------------
OIDC_ISSUER = text("NNIWEB_OIDC_ISSUER").rstrip("/")
OIDC_CLIENT_ID = text("NNIWEB_OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = text("NNIWEB_OIDC_CLIENT_SECRET")
OIDC_NAME = text("NNIWEB_OIDC_NAME", "single sign-on")
OIDC_ROLE = text("NNIWEB_OIDC_ROLE", "viewer").lower()
OIDC_GROUPS_CLAIM = text("NNIWEB_OIDC_GROUPS_CLAIM")
OIDC_MATCH_EMAIL = boolean("NNIWEB_OIDC_MATCH_EMAIL", False)
if OIDC_ISSUER:
    _needs_package("authlib", "NNIWEB_OIDC_ISSUER", "oidc")
    if not re.match(r"https://[^/]|http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/|$)", OIDC_ISSUER):
        raise ImproperlyConfigured("NNIWEB_OIDC_ISSUER must begin with https:// (http:// only on this machine).")
    if not OIDC_CLIENT_ID:
        raise ImproperlyConfigured("NNIWEB_OIDC_ISSUER is set, but NNIWEB_OIDC_CLIENT_ID is not. Set it to the client "
                                   "id that the provider gave to this application.")
if OIDC_ROLE not in ("viewer", "member", "admin"):
    raise ImproperlyConfigured(f"NNIWEB_OIDC_ROLE must be viewer, member or admin, not {shown(OIDC_ROLE)}.")

# --- REST ------------------------------------------------------------------------------------
# what one trial's keeper may send
KEEPER_CALLS, KEEPER_MEGABYTES = number("NNIWEB_KEEPER_CALLS", 50), number("NNIWEB_KEEPER_MB", 8)
TRIAL_BYTES = number("NNIWEB_TRIAL_MB", 512) * 1_000_000
# requests a minute of one person or token; 0: as many as they like
API_RATE = number("NNIWEB_API_RATE", 3000)
# tools for agents at /mcp/
MCP = boolean("NNIWEB_MCP", False)
if MCP:
    _needs_package("mcp", "NNIWEB_MCP", "mcp")
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "nniweb.http.callers.authentication.TokenAuthentication",
        "nniweb.http.callers.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["nniweb.http.permissions.RolePermission"],
    "DEFAULT_THROTTLE_CLASSES": ["nniweb.http.callers.throttles.PersonThrottle"],
    "NUM_PROXIES": 0,  # the client's address is known already: nniweb.http.proxies
    "DEFAULT_RENDERER_CLASSES": ["nniweb.http.renderers.ExactJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["nniweb.http.parsers.JSONParser"],
    "DEFAULT_PAGINATION_CLASS": "nniweb.http.pagination.Pages",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "nniweb.http.error_form.answer_error",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "NNI Web",
    "DESCRIPTION": "Hyper-parameter searches on any machine.",
    "VERSION": "1",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SERVE_INCLUDE_SCHEMA": False,
    "DEFAULT_GENERATOR_CLASS": "nniweb.api.schema.KeptSchemaGenerator",
    "SCHEMA_PATH_PREFIX": "/api/v1/",
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "nniweb.api.schema.add_errors"],
    "ENUM_NAME_OVERRIDES": {
        "ExperimentStatus": "nniweb.experiments.models.experiment.ExperimentStatus",
        "ExperimentTarget": "nniweb.experiments.models.experiment.ExperimentTarget",
        "TrialStatus": "nniweb.experiments.models.trial.TRIAL_STATUSES",
        "TrialTarget": "nniweb.experiments.models.trial.TrialTarget",
        "NotificationChannel": "nniweb.experiments.models.notification.Channel",
        "NotificationOccasion": "nniweb.experiments.models.notification.Occasion",
        "DeliveryState": "nniweb.experiments.models.notification.DeliveryState",
        "LogSource": "nniweb.experiments.models.log_line.LogSource",
        "TrialSource": "nniweb.experiments.models.trial.TrialSource",
    },
}

# --- logs ------------------------------------------------------------------------------------
LOG_LEVEL = text("NNIWEB_LOG_LEVEL", "INFO").upper()
LOG_FORMAT = text("NNIWEB_LOG_FORMAT", "text").lower()
if LOG_FORMAT not in ("text", "json"):
    raise ImproperlyConfigured(f"NNIWEB_LOG_FORMAT must be text or json, not {shown(LOG_FORMAT)}.")
METRICS_TOKEN = text("NNIWEB_METRICS_TOKEN")
# spans for a collector of OpenTelemetry, which the OTEL_* variables name
TRACES = boolean("NNIWEB_TRACES", False)
if TRACES:
    _needs_package("opentelemetry.exporter.otlp.proto.http", "NNIWEB_TRACES", "otel")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"()": "nniweb.experiments.secrets.masking.MaskingFormatter",
                 "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
        "json": {"()": "nniweb.observability.json_lines.MaskingJsonFormatter", "fmt": ["levelname", "name", "message"],
                 "rename_fields": {"levelname": "level", "name": "logger", "exc_info": "exception"},
                 "timestamp": "time"},
    },
    "filters": {
        "database_away": {"()": "nniweb.database.outage_logs.NoTracebackWhileDatabaseIsAway"},
        "refusals": {"()": "nniweb.observability.refusal_logs.NoTracebackOfRefusals"},
        "once_a_minute": {"()": "nniweb.database.outage_logs.OnceAMinute"},
        "ids": {"()": "nniweb.observability.log_ids.AddIds"},
        "wanted": {"()": "nniweb.observability.console_level.AtLeast", "level": LOG_LEVEL},
        "retries": {"()": "nniweb.observability.console_level.NoRetries", "level": LOG_LEVEL},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT,
                             "filters": ["wanted", "retries", "database_away", "refusals", "ids"]}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        # never above INFO: the logs of experiments are kept whatever the console shows
        **{name: {"level": LOG_LEVEL if LOG_LEVEL == "DEBUG" else "INFO"} for name in ("nniweb", "trainingservice")},
        # while their servers are away both log each try. What that means is said by the bell, once; why PostgreSQL
        # cannot be reached is said by its pool alone
        "channels_redis": {"level": "CRITICAL"},
        "psycopg.pool": {"filters": ["once_a_minute"]},
        # and spans that a collector does not take
        **{f"opentelemetry.{name}": {"filters": ["once_a_minute"]} for name in (
            "exporter.otlp.proto.http.trace_exporter", "sdk._shared_internal")},
    },
}
