"""A little Python program that tells, where trials run, whether keepers there reach the server."""

from collections.abc import Sequence
from pathlib import Path

from trainingservice.errors import PermanentError
from trialkeeper import contract

#: Arguments: PROBED_PATH, the text of an authority or "", addresses.
#: Is this a Python the keeper can use, and does one of our addresses answer?
PROBE = """
import json, sys, urllib.error, urllib.request
if sys.version_info < (3, 8):
    sys.exit("Python %s is too old for the keeper, which needs 3.8" % sys.version.split()[0])
path, authority, said = sys.argv[1], sys.argv[2], []
handlers = [urllib.request.ProxyHandler({})]  # keepers know no proxies
if authority:
    import ssl
    handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=authority)))
direct = urllib.request.build_opener(*handlers)
for url in sys.argv[3:]:
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
    sys.stderr.write("unreachable: " + "; ".join(said) + "\\n")
    sys.exit(3)
"""
#: Exit status of the program where no address is reached.
UNREACHABLE = 3
#: An address of the keeper protocol that needs no attempt: any answer of ours names the installation.
PROBED_PATH = contract.URL_PREFIX + "trials/rehearsal/job"


def probe_arguments(urls: Sequence[str], ca_file: Path | None) -> list[str]:
    """Of a Python, so that it runs the program. ``ca_file``: the authority behind the addresses' certificate.

    Raises PermanentError where that cannot be read.
    """
    try:
        authority = "" if ca_file is None else ca_file.read_text()
    except OSError as error:
        raise PermanentError(f"The certificate authority {ca_file} cannot be read: {error}.") from error
    return ["-c", PROBE, PROBED_PATH, authority, *urls]
