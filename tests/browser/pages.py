"""What people do in Dagster's UI, as steps; each waits for what it shows."""

from __future__ import annotations

import re

import yaml
from playwright.sync_api import Locator, Page, expect

from tests.browser.site import PATIENCE_S, Site

_MS = PATIENCE_S * 1000
RUN_MS = 3 * _MS
"""Patience with a whole chain: on a busy machine, several of its steps take Spark minutes."""
_WARNING = "warning_outline"
expect.set_options(timeout=_MS)


class Clicks:
    """Count of the clicks that a page receives; begin to count before the page is loaded.

    Attributes:
        count: Clicks so far; steps back in the browser's history are clicks on its button.
    """

    def __init__(self, page: Page) -> None:
        self.count = 0
        self._page = page
        page.expose_function("countClick", self._add)
        page.add_init_script(
            "window.addEventListener('click', it => it.isTrusted && window.countClick(), true)"
        )

    def go_back(self) -> None:
        """Press the browser's button to the page before."""
        self._add()
        self._page.go_back()

    def _add(self) -> None:
        self.count += 1


def open_job(page: Page, job: str) -> None:
    """From any page to the page of a job."""
    page.get_by_role("link", name="Jobs").first.click(timeout=_MS)
    page.locator(f'a[href$="/jobs/{job}"]').first.click(timeout=_MS)
    page.wait_for_url(f"**/jobs/{job}**", timeout=_MS)


def press_materialize_all(page: Page) -> None:
    """Press the button of a job's page, and go to the run that it launches."""
    page.get_by_role("button", name="Materialize all").click(timeout=_MS)
    follow_launch(page)


def open_launchpad(page: Page) -> None:
    """From a job's page to its form."""
    page.get_by_role("tab", name="Launchpad").click(timeout=_MS)


def choose_action(page: Page, job: str, action: str, **fields: str) -> None:
    """Fill in the form of a job that has a choice of actions, in the Launchpad."""
    _write(page, form(job, action={action.lower(): fields}))


def materialize_all(page: Page, site: Site, job: str) -> None:
    """Launch a job from its page, and go to the run."""
    page.goto(site.job(job))
    press_materialize_all(page)


def follow_launch(page: Page) -> None:
    """From the message that a run was launched to its page."""
    page.get_by_text("View", exact=True).first.click(timeout=_MS)
    page.wait_for_url("**/runs/*", timeout=_MS)


def await_end(page: Page, state: str) -> None:
    """Wait on a run's page until it has ended, well or not."""
    ended = page.get_by_text(re.compile("^(Success|Failure|Canceled)$")).first
    expect(ended).to_be_visible(timeout=RUN_MS)
    expect(ended).to_have_text(state)


def form(job: str, **fields: object) -> str:
    """What a job's form holds when these fields are filled in."""
    return yaml.safe_dump({"ops": {f"do_{job}": {"config": fields}}})


def fill_in(page: Page, site: Site, job: str, config: str) -> None:
    """Fill in a job's form in the Launchpad."""
    page.goto(f"{site.job(job)}/playground")
    _write(page, config)


def _write(page: Page, config: str) -> None:
    editor = page.locator(".CodeMirror").first
    # The UI fills in the defaults when it has them, also over what was typed before that.
    expect(editor).to_contain_text("config")
    editor.click(timeout=_MS)
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(config)
    # From the line after the form back into it: the fields that are shown are those of that place.
    page.keyboard.press("ArrowLeft")


def launch(page: Page) -> None:
    """Press the Launchpad's button, and go to the run that it launches."""
    page.get_by_role("button", name="Launch Run").first.click(timeout=_MS)
    page.wait_for_url("**/runs/*", timeout=_MS)


def launch_partitions(page: Page, site: Site, pipeline: str, first: str, last: str) -> None:
    """Choose a range of a pipeline's partitions, launch it, and go to the page of the backfill."""
    page.goto(site.asset(pipeline, "ranges", "partitions"))
    page.get_by_role("button", name="Materialize").first.click(timeout=_MS)
    chosen = page.get_by_role("dialog").get_by_role("textbox").first
    chosen.fill(f"[{first}...{last}]")
    chosen.press("Enter")
    page.get_by_role("button", name="Launch backfill").click(timeout=_MS)
    page.get_by_text("View", exact=True).first.click(timeout=_MS)
    page.wait_for_url("**/runs/b/*", timeout=_MS)


def materialize(page: Page, site: Site, pipeline: str, step: str) -> None:
    """Materialize one asset from its page, and go to the run."""
    page.goto(site.asset(pipeline, step))
    page.get_by_role("button", name="Materialize").first.click(timeout=_MS)
    follow_launch(page)


def check_result(page: Page, site: Site, pipeline: str, step: str, name: str) -> Locator:
    """The latest result on the page of a check."""
    page.goto(f"{site.asset(pipeline, step, 'checks')}&checkDetail={name}")
    title = page.get_by_text("Evaluation result", exact=True)
    return title.locator("xpath=following::*[text()='Passed' or text()='Failed'][1]")


def expect_warning(result: Locator) -> None:
    """Expect that a result is shown as a warning: neither green nor red."""
    expect(
        result.locator(f"xpath=preceding::*[@role='img'][1][@aria-label='{_WARNING}']")
    ).to_be_visible()


def open_markdown(page: Page, name: str) -> Locator:
    """Open the picture that an asset's page has under a name."""
    row = page.get_by_role("row").filter(has_text=re.compile(f"^{name}"))
    row.get_by_text("[Show Markdown]").click(timeout=_MS)
    picture = page.get_by_role("img", name=name, exact=True)
    expect(picture).to_be_visible()
    return picture
