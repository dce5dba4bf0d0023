"""How a job that no platform brings a keeper gets one: it fetches the server's own, with its token."""

from __future__ import annotations

from trialkeeper import contract

#: Fetches the keeper, where the job runs. Python 3.8, standard library; told the file to write, and the server's path.
#: It goes by the keeper's own variables, tries for an hour, and exits with 82 where the attempt is not wanted any more.
FETCH = """\
import os, sys, time, urllib.error, urllib.request, zipfile
target, path = sys.argv[1:]
handlers = [urllib.request.ProxyHandler({})]
if os.environ.get("NNI_KEEPER_CA"):
    import ssl
    context = ssl.create_default_context(cafile=os.environ["NNI_KEEPER_CA"])
    handlers.append(urllib.request.HTTPSHandler(context=context))
open_url = urllib.request.build_opener(*handlers).open
give_up, pause, said = time.monotonic() + 3600, 1.0, ""
while True:
    for base in os.environ["NNI_KEEPER_URLS"].split(","):
        request = urllib.request.Request(base.rstrip("/") + path)
        request.add_header("Authorization", "Bearer " + os.environ["NNI_KEEPER_TOKEN"])
        try:
            with open_url(request, timeout=60) as answer, open(target, "wb") as file:
                file.write(answer.read(67108864))
            if zipfile.is_zipfile(target):
                sys.exit(0)
            problem = base + " sent something else"
        except urllib.error.HTTPError as error:
            if error.code == 410:
                sys.exit(82)
            problem = "%s answered %d" % (base, error.code)
        except Exception as error:
            problem = "%s: %s" % (base, error)
    if time.monotonic() > give_up:
        sys.exit("The keeper cannot be fetched from the server: " + problem)
    if problem != said:
        print("The keeper cannot be fetched from the server yet: " + problem, file=sys.stderr, flush=True)
    said = problem
    time.sleep(pause)
    pause = min(30.0, pause * 2)
"""


def keeper_path(job_name: str) -> str:
    """Where the server has the keeper of this job, for the second argument of ``FETCH``."""
    return f"{contract.URL_PREFIX}trials/{job_name}/keeper"
