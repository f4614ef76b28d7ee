#!/usr/bin/env python3
"""All tests of the studio, in lanes of about the same length with a browser each, since they often wait; each part runs alone too.
usage: studio.py KINORA ROOT SCRATCH"""
import concurrent.futures, time

import access, chosen, edits, films, keys, looks, many, pictures, scroll, search, states, stills, work
from browser import browser, curated_once, fresh

LANES = (keys, films, looks), (edits, work, chosen), (states, access, stills), (search, scroll, pictures, many)


def run(lane):
    with browser() as chromium:
        for part in lane:
            start = time.monotonic()
            part.main(chromium)
            print(f"{part.__name__}: {time.monotonic() - start:.1f} s", flush=True)


def main():
    fresh()
    curated_once()  # shared by the lanes
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for lane in [pool.submit(run, lane) for lane in LANES]:
            lane.result()


main()
