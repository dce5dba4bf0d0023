"""Takes the pictures in docs/screenshots from a running demo: ``make screenshots``, or of some pages alone:

    .venv/bin/python scripts/screenshots.py trial cluster

Starts a server of its own in a temporary data folder, waits until the demo and two short examples have
something to show, and takes every page in both themes at the width of a desk and of a phone. Needs Debian's
chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402
from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

from tests.end_to_end.running_server import RunningServer  # noqa: E402

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]
FOLDER = ROOT / "docs" / "screenshots"
#: Name -> width and height of the window, in pixels.
WINDOWS = {"desk": (1440, 900), "phone": (390, 844)}
#: How many of the demo's trials have ended when the pictures are taken: there is a best so far, and two still run.
ENDED = 9
#: Trials of the short examples: enough to see which parameter matters, and a front.
TRIALS_OF_EXAMPLES = 80


def main() -> int:
    if not Path(CHROMIUM).exists():
        print(f"{CHROMIUM} is missing; on Debian and Ubuntu:  sudo apt-get install chromium", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="nniweb-screenshots-") as scratch:
        server = RunningServer(Path(scratch) / "data", {"NNIWEB_DEMO": "1", "NNIWEB_EXTRA_PLATFORMS": ""})
        try:
            server.start()
            with sync_playwright() as playwright:
                # a proxy of this machine has no part in what goes over loopback
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, env={
                    name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")})
                take_all(server, browser)
                browser.close()
        finally:
            server.close()
    return 0


def take_all(server: RunningServer, browser: Browser) -> None:
    [demo] = server.wait_until(lambda: server.get("experiments/")["results"], 60, "the demo is launched")
    address = f"experiments/{demo['id']}/"
    print("Waiting for the demo's first trials ...", flush=True)
    # it must not end before the last picture
    server.patch(address, {"max_trial_number": 300})
    server.wait_until(lambda: server.get(address)["progress"]["ended"] >= ENDED, 240, f"{ENDED} trials have ended")
    trial = next(row for row in server.get(f"{address}trials/")["results"] if row["status"] == "SUCCEEDED")
    [cluster] = server.get("clusters/")["results"]
    code = server.data_folder.with_name("digits")
    shutil.copytree(ROOT / "examples" / "digits", code)
    quadratic = f"experiments/{launch_example(server, 'quadratic')}/"
    beam = f"experiments/{launch_example(server, 'beam')}/"
    pages: dict[str, tuple[str, Callable[[Page], None]]] = {
        "cluster": (f"/clusters/{cluster['id']}/", rehearsed),
        "new-experiment": ("/new/?template=digits", lambda page: checked(page, code)),
        "experiments": ("/", live),
        "account": ("/account/", still),
        "sign-in": ("/sign-in/", still),
        "clusters": ("/clusters/", live),
        "trial": (f"/trials/{trial['id']}/", drawn),
        "experiment": (f"/{address}", drawn),
        "experiment-front": (f"/{beam}?frontlog=1", drawn),
        "experiment-trials": (f"/{address}trials/", live),
        "experiment-parameters": (f"/{quadratic}parameters/", drawn),
        "experiment-intermediate": (f"/{address}intermediate/", drawn),
        "experiment-timeline": (f"/{address}timeline/", drawn),
        "experiment-compare": (f"/{address}compare/?trials=0,1,2,3", drawn),
        "experiment-log": (f"/{address}log/", live),
        "experiment-config": (f"/{address}config/", live),
        "experiment-events": (f"/{address}events/?trials=true", live),
        "notifications": ("/notifications/", still),
        "api": ("/api/docs/", lambda page: page.locator("#api .opblock").first.wait_for()),
        "api-reference": ("/api/docs/redoc/", lambda page: page.locator("#reference h1").first.wait_for()),
    }
    if unknown := [name for name in sys.argv[1:] if name not in pages]:
        raise SystemExit(f"There is no page {', '.join(unknown)}; there are {', '.join(pages)}.")
    session = sign_in(server, browser)
    server.post("tokens/", {"name": "notebook", "scope": "change"})
    server.post("groups/", {"name": "vision", "members": ["admin"]})
    for name in sys.argv[1:] or pages:
        path, prepare = pages[name]
        for window, (width, height) in WINDOWS.items():
            for theme in ("light", "dark"):
                context = browser.new_context(base_url=server.url, viewport={"width": width, "height": height},
                                              color_scheme=theme, reduced_motion="reduce",
                                              storage_state=None if name == "sign-in" else session)
                page = context.new_page()
                page.goto(path)
                prepare(page)
                file = FOLDER / f"{name}-{window}-{theme}.png"
                page.screenshot(path=str(file))
                print(f"{file.relative_to(ROOT)}  {file.stat().st_size // 1024} kB", flush=True)
                context.close()


def launch_example(server: RunningServer, name: str) -> str:
    """One whose trials are short and leave the processors to the demo's."""
    folder = ROOT / "examples" / name
    config = yaml.safe_load((folder / "config.yml").read_text())
    experiment = server.launch({**config, "maxTrialNumber": TRIALS_OF_EXAMPLES, "trialConcurrency": 2}, folder)
    server.wait_for_experiment(experiment, patience=240)
    return experiment


def sign_in(server: RunningServer, browser: Browser) -> str:
    """Uses the link that the server printed. Returns a file with the session."""
    links = server.wait_until(lambda: re.findall(r"http://\S+/sign-in/\S+", server.log_file.read_text()))
    context = browser.new_context()
    page = context.new_page()
    page.goto(links[-1])
    page.get_by_role("button", name="Sign in as").click()
    page.wait_for_url(f"{server.url}/")
    file = server.data_folder.with_name("session.json")
    context.storage_state(path=str(file))
    context.close()
    return str(file)


# --- when a page is worth a picture ----------------------------------------------------------


def still(page: Page) -> None:
    page.locator("h1").wait_for()


def live(page: Page) -> None:
    page.locator("#live[data-state=live]").wait_for()


def drawn(page: Page) -> None:
    page.locator(".chart canvas").first.wait_for()
    live(page)
    page.wait_for_timeout(800)  # a chart says nowhere that it has been painted


def checked(page: Page, code: Path) -> None:
    page.get_by_label("Code folder on the server").fill(str(code))
    page.get_by_role("button", name="Check").click()
    page.get_by_role("heading", name="Ready to launch").wait_for()
    page.evaluate("scrollTo(0, 0)")


def rehearsed(page: Page) -> None:
    page.get_by_role("button", name="Test cluster").click()
    page.get_by_text("checks are good").wait_for()


if __name__ == "__main__":
    sys.exit(main())
