"""A little Python program that tells, where trials run, whether keepers there reach the server."""

from trialkeeper import contract

#: Arguments: PROBED_PATH, addresses. Is this a Python the keeper can use, and does one of our addresses answer?
PROBE = """
import json, sys, urllib.error, urllib.request
if sys.version_info < (3, 8):
    sys.exit("Python %s is too old for the keeper, which needs 3.8" % sys.version.split()[0])
path, said = sys.argv[1], []
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # keepers know no proxies
for url in sys.argv[2:]:
    try:
        text = direct.open(url.rstrip("/") + path, timeout=10).read()
    except urllib.error.HTTPError as error:
        text = error.read()
    except Exception as error:
        said.append("%s: %s" % (url, error))
        continue
    try:
        found = json.loads(text).get("installation")
    except Exception:
        found = None
    if found:
        print("reached " + url)
        sys.exit(0)
    said.append(url + ": another program answers there")
if said:
    sys.exit("unreachable: " + "; ".join(said))
"""
#: An address of the keeper protocol that needs no attempt: any answer of ours names the installation.
PROBED_PATH = contract.URL_PREFIX + "trials/rehearsal/job"
