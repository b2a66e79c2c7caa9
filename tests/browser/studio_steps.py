"""What tests do on Studio's pages."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urljoin

from playwright.sync_api import Locator, Page, expect


def hook(page: Page | Locator, name: str) -> Locator:
    return page.locator(f'[data-test="{name}"]')


def go(page: Page, step: str) -> None:
    page.locator(f'[data-test="step"][data-step="{step}"]').click()
    expect(page.locator(f'[data-step="{step}"]')).to_have_attribute("aria-current", "page")


def settled(page: Page) -> str:
    """The setting, once it is what `dalenius plan` gives."""
    expect(hook(page, "exact")).to_have_attribute("data-exact", "true")
    return hook(page, "setting").get_attribute("data-setting") or ""


def choose_roles(page: Page, sensitive: str) -> None:
    """The suggested roles, with this column as the sensitive one."""
    hook(page, "use-suggested").click()
    make_sensitive(page, sensitive)
    hook(page, "continue").click()
    expect(page.locator("#limits")).to_be_visible()


def make_sensitive(page: Page, sensitive: str) -> None:
    """This column alone: others that are sensitive are left out."""
    for column in page.locator('[data-test="column"][data-role="sensitive"]').all():
        name = column.get_attribute("data-column")
        if name != sensitive:
            page.locator(f'[data-test="role"][data-column="{name}"][data-role="left-out"]').check(force=True)
    page.locator(f'[data-test="role"][data-column="{sensitive}"][data-role="sensitive"]').check(force=True)


def draft_job(page: Page, folder: Path, name: str) -> Path:
    """The job file that the publisher could download now."""
    answer = page.request.get(urljoin(page.url, "/job.toml"))
    assert answer.ok
    path = folder / name
    path.write_bytes(answer.body())
    return path
