"""What people do in Dagster's UI, as steps; each waits for what it shows."""

from __future__ import annotations

import re

import yaml
from playwright.sync_api import Locator, Page, expect

from tests.browser.site import PATIENCE_S, Site

_MS = PATIENCE_S * 1000
expect.set_options(timeout=_MS)


def materialize_all(page: Page, site: Site, job: str) -> None:
    """Press the button of a job's page, and go to the run that it launches."""
    page.goto(site.job(job))
    page.get_by_role("button", name="Materialize all").click(timeout=_MS)
    follow_launch(page)


def follow_launch(page: Page) -> None:
    """From the message that a run was launched to its page."""
    page.get_by_text("View", exact=True).first.click(timeout=_MS)
    page.wait_for_url("**/runs/*", timeout=_MS)


def await_end(page: Page, state: str) -> None:
    """Wait on a run's page until it has ended, well or not."""
    ended = page.get_by_text(re.compile("^(Success|Failure|Canceled)$")).first
    expect(ended).to_be_visible()
    expect(ended).to_have_text(state)


def form(job: str, **fields: str) -> str:
    """What a job's form holds when these fields are filled in."""
    return yaml.safe_dump({"ops": {f"do_{job}": {"config": fields}}})


def plan_form(pipeline: str, **fields: str) -> str:
    """What the form of a chain's job holds when these fields of its plan are filled in."""
    return yaml.safe_dump({"ops": {f"{pipeline}__plan": {"config": fields}}})


def fill_in(page: Page, site: Site, job: str, config: str) -> None:
    """Fill in a job's form in the Launchpad."""
    page.goto(f"{site.job(job)}/playground")
    page.locator(".CodeMirror").first.click(timeout=_MS)
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(config)


def launch(page: Page) -> None:
    """Press the Launchpad's button, and go to the run that it launches."""
    page.get_by_role("button", name="Launch Run").first.click(timeout=_MS)
    page.wait_for_url("**/runs/*", timeout=_MS)


def re_execute_from_failure(page: Page) -> None:
    """Choose that on a failed run's page, and go to the run that it launches."""
    await_end(page, "Failure")
    before = page.url
    menu = page.get_by_role("button", name="Re-execute all").locator("xpath=following::button[1]")
    menu.click(timeout=_MS)
    page.get_by_role("menuitem", name="From failure").click(timeout=_MS)
    page.wait_for_url(lambda url: "/runs/" in url and url != before, timeout=_MS)


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


def check_result(page: Page, site: Site, pipeline: str, step: str, name: str) -> Locator:
    """The latest result on the page of a check."""
    page.goto(f"{site.asset(pipeline, step, 'checks')}&checkDetail={name}")
    title = page.get_by_text("Evaluation result", exact=True)
    return title.locator("xpath=following::*[text()='Passed' or text()='Failed'][1]")


def open_markdown(page: Page, name: str) -> Locator:
    """Open the picture that an asset's page has under a name."""
    row = page.get_by_role("row").filter(has_text=re.compile(f"^{name}"))
    row.get_by_text("[Show Markdown]").click(timeout=_MS)
    picture = page.get_by_role("img", name=name, exact=True)
    expect(picture).to_be_visible()
    return picture
