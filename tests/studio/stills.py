#!/usr/bin/env python3
"""Pictures among the clips: shown whole in place of the player, from the stored file or else from the source, without
anything that plays; a card without its picture yet moves. usage: stills.py KINORA ROOT SCRATCH"""
import cv2
import numpy as np

from browser import SCRATCH, Studio, eventually, page_of, run_alone
from clips import curate_folder
from edits import select


# Holds the requests for pictures until show().
HOLD_PICTURES = """const { fetch } = window, shown = new Promise((show) => (window.show = show));
window.fetch = async (address, options) =>
    ((String(address).startsWith("/picture") && (await shown)), fetch(address, options));"""


def folder_of():
    source = SCRATCH / "still-source.png"
    facts = {"picture": "webp", "width": 300, "height": 200, "frames": 1}
    folder = curate_folder(SCRATCH / "stills", [
        {"key": "kept", "end": "kept", "consumed": False, "facts": facts, "caption": "a kept picture",
         "url": str(SCRATCH / "gone.webp")},
        {"key": "taken-out", "end": "filtered", "stage": "filter.blur", "reason": "filter.blur", "score": 1,
         "consumed": False, "facts": {**facts, "picture": "png", "width": 60, "height": 90}, "url": str(source)}])
    cv2.imwrite(str(folder / "data/kept.webp"), np.full((200, 300, 3), 90, np.uint8))
    cv2.imwrite(str(source), np.full((90, 60, 3), 200, np.uint8))
    return folder


def shown(page, key, width, height):
    select(page, key)
    page.wait_for_function(
        "([width, height]) => { const image = document.querySelector('#detail img'); return image?.naturalWidth === "
        "width && image.naturalHeight === height; }", arg=[width, height])
    assert page.locator("#detail video").count() == 0
    assert "picture, " in page.locator(".cell[aria-selected=true]").get_attribute("aria-label")
    # the card has a picture as well
    page.wait_for_function(
        "() => document.querySelector('.cell[aria-selected=true] canvas').style.visibility === 'visible'")


def check_loading(chromium, studio, motion, moves):
    with page_of(chromium, studio, reduced_motion=motion,
                 before=lambda page: page.add_init_script(f"{{ {HOLD_PICTURES} }}")) as page:
        moving = lambda: page.evaluate(
            "() => document.getAnimations().filter(({ animationName }) => animationName === 'loading').length")
        eventually(lambda: page.locator(".cell.loading").count() == 2 and moving() == moves, (motion, moves))
        page.evaluate("() => window.show()")
        eventually(lambda: page.locator(".cell.loading").count() == moving() == 0, "the pictures are there")


def main(chromium):
    with Studio(folder_of()) as studio, page_of(chromium, studio, reduced_motion="no-preference") as page:
        check_loading(chromium, studio, "no-preference", 2)
        check_loading(chromium, studio, "reduce", 0)
        shown(page, "kept", 300, 200)
        assert page.locator("#detail img").get_attribute("alt") == "a kept picture"
        assert page.locator(".cell[aria-selected=true] .mark").text_content() == ""
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.locator(".cell[aria-selected=true] .still").hover()
        page.wait_for_timeout(400)  # longer than a clip waits before it plays
        assert not any("/video" in url or "/api/clip?" in url for url in asked), asked
        shown(page, "taken-out", 60, 90)
    print("stills: pictures are shown as pictures")


if __name__ == "__main__":
    run_alone(main)
