"""axe-core's rules for accessibility on a page in a browser, contrast included."""
from axe_playwright_python.base import AXE_SCRIPT


def violations(page, **options):
    """One line per rule that the page breaks, about its first element."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate("async (options) => (await axe.run(options)).violations",
                          {"resultTypes": ["violations"], **options})
    return [f"{v['id']}: {v['nodes'][0]['target']} {v['nodes'][0].get('failureSummary', '')}" for v in found]
