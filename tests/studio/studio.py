#!/usr/bin/env python3
"""All tests of the studio, four at a time with a browser each, since they often wait; each part runs alone too.
usage: studio.py KINORA ROOT SCRATCH"""
import concurrent.futures, queue, time

import access, chosen, edits, keys, looks, many, newcomer, pairs, pictures, posters, review
import scroll, search, states, steps, stills, trim, videos, whynot, work
from browser import browser, curated_once, fresh

# The longest first: each browser takes the next part when it has ended one, so that all end at about the same time.
PARTS = (search, keys, work, states, access, review, edits, many, looks, scroll, chosen, pictures, posters,
         videos, steps, trim, whynot, pairs, stills, newcomer)
AT_ONCE = 4


def run(parts):
    with browser() as chromium:
        while True:
            try:
                part = parts.get_nowait()
            except queue.Empty:
                return
            start = time.monotonic()
            part.main(chromium)
            print(f"{part.__name__}: {time.monotonic() - start:.1f} s", flush=True)


def main():
    fresh()
    curated_once()  # shared by the parts
    parts = queue.SimpleQueue()
    for part in PARTS:
        parts.put(part)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for browsers in [pool.submit(run, parts) for _ in range(AT_ONCE)]:
            browsers.result()


main()
