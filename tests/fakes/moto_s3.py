"""A real S3-compatible server: that of the package moto, in an environment of its own, which checks who signs.

botocore, which moto needs, cannot be installed beside the client for Kubernetes. See requirements/s3.txt.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

from tests.fakes.own_environments import python_with

#: What stands in the environment beside moto: the storages that other installations name.
PACKAGES = ["moto[s3,server]==5.2.5", "django-storages==1.14.6", "Django==5.2.19"]
BUCKET = "nni"

_PROGRAM = """
import json, os, socketserver, sys
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "4"  # those below; who calls later must have signed
import logging
logging.disable(logging.CRITICAL)
import boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
address = f"http://{host}:{port}"
def client(name):
    return boto3.client(name, endpoint_url=address, region_name="us-east-1", aws_access_key_id="maker",
                        aws_secret_access_key="maker")
client("s3").create_bucket(Bucket=sys.argv[1])
iam = client("iam")
iam.create_user(UserName="nniweb")
iam.put_user_policy(UserName="nniweb", PolicyName="all", PolicyDocument=json.dumps({
    "Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}))
key = iam.create_access_key(UserName="nniweb")["AccessKey"]
print(json.dumps({"endpoint": address, "access_key": key["AccessKeyId"], "secret_key": key["SecretAccessKey"]}),
      flush=True)
sys.stdin.read()
"""


class MotoS3:
    """``options``: as ``S3Storage`` takes them, for a bucket that exists."""

    def __init__(self) -> None:
        """Started, and ready. Skips the test where moto cannot be installed."""
        self.python = moto_python()
        self._process = subprocess.Popen(
            [str(self.python), "-c", _PROGRAM, BUCKET], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"})
        assert self._process.stdout is not None
        stopping = threading.Timer(120, self._process.kill)
        stopping.start()
        try:
            said = self._process.stdout.readline()
        finally:
            stopping.cancel()
        assert said, "moto's server ended before it was ready"
        self.options: dict[str, str] = {**json.loads(said), "bucket": BUCKET}

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def moto_python() -> Path:
    """The interpreter of the environment with PACKAGES."""
    return python_with("moto", "5.2.5", [PACKAGES], "moto")
