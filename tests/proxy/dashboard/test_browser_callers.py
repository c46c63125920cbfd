"""Callers with tokens of their own on the dashboard, in a real Chromium."""

from pathlib import Path

import pytest

from focusctx.proxy.access import NamedCaller

expect = pytest.importorskip("playwright.async_api", reason="playwright is not installed").expect
axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe-playwright-python is not installed")

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

ALICE, BOB, ADMIN = (f"the token of {name}, which is long" for name in ("alice", "bob", "the admin"))


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
async def test_each_caller_has_a_line(staging, window, scheme, width, tmp_path: Path):
    callers = (NamedCaller("alice", ALICE, 2500), NamedCaller("bob", BOB))
    async with staging(budget=100_000, callers=callers, admin_token=ADMIN) as stage:
        page = window.page
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        await page.set_viewport_size({"width": width, "height": 800})
        await page.goto(f"{stage.url}/ui")
        window.complaints.clear()  # the login page comes with a 403
        await page.get_by_label("Admin token").fill(ADMIN)
        await page.get_by_role("button").click()
        await expect(page.locator("pre")).to_be_visible()
        await stage.agent(headers={"x-focusctx-token": ALICE}).step(9)
        await stage.agent("other", headers={"x-focusctx-token": BOB}).step(2)
        table = page.get_by_role("table", name="Callers")
        alice, bob = (table.get_by_role("row").filter(has_text=name) for name in ("alice", "bob"))
        await expect(alice.get_by_role("cell").nth(0)).to_have_text("2,500")
        await expect(alice.get_by_role("cell").nth(1)).to_have_text("9")
        await expect(alice.get_by_role("cell").nth(3)).not_to_have_text("0")
        await expect(alice.get_by_role("cell").nth(4)).to_have_text("unknown")  # the model has no price
        await expect(bob.get_by_role("cell").nth(0)).to_have_text("as usual")
        await expect(bob.get_by_role("cell").nth(3)).to_have_text("0")
        await expect(page.get_by_text("alice · local")).to_be_visible()
        found = await axe.Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, found.generate_report()
        await page.screenshot(path=tmp_path / "callers.png", full_page=True)


async def test_without_callers_there_is_no_table(staging, window):
    async with staging() as stage:
        await stage.agent().step()
        await window.page.goto(f"{stage.url}/ui")
        await expect(window.page.get_by_role("table")).to_have_count(1)
