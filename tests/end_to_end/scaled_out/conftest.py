"""Servers and processes for the tests of this folder."""

from tests.end_to_end.kill_table.conftest import faketime
from tests.end_to_end.scaled_out.postgresql_server import postgresql, postgresql_of_this_run
from tests.end_to_end.scaled_out.redis_server import redis, redis_of_this_run
from tests.end_to_end.scaled_out.several_processes import installation

__all__ = ["faketime", "installation", "postgresql", "postgresql_of_this_run", "redis", "redis_of_this_run"]
