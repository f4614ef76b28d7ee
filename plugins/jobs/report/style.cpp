#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {
namespace {

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark;
  --paper: #fdfdfc; --panel: #f3f3f1; --ink: #1a1c1e; --dim: #5f656b; --rule: #dfe0dd;
  --line: #1f5fae; --dots: #9dbfe6; --kept: #1b7a58; --filtered: #96620a; --failed: #b02a20; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #121315; --panel: #1c1e21; --ink: #e9e9e7; --dim: #9ba1a8; --rule: #303338;
  --line: #86b7f4; --dots: #3f5f86; --kept: #63c89d; --filtered: #dfab55; --failed: #f1897f; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 76rem; padding: 0 clamp(1rem, 4vw, 3rem) 6rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; }
h1, h2, h3 { margin: 0; line-height: 1.15; text-wrap: balance; overflow-wrap: anywhere; }
h1 { font-size: clamp(2rem, 5vw, 3.25rem); font-weight: 650; letter-spacing: -0.025em; }
h2 { font-size: 1.625rem; font-weight: 640; letter-spacing: -0.015em; margin-bottom: 1.5rem; }
h3 { font-size: 1.0625rem; font-weight: 640; margin-top: 2rem; }
p, figure, dl, dd, ol { margin: 0; padding: 0; }
header { padding: clamp(2.5rem, 6vw, 4.5rem) 0 0; }
header .dim { margin-top: .5rem; }
section { margin-top: clamp(3rem, 6vw, 4.5rem); }
a { color: var(--line); }
.dim, figcaption, caption { color: var(--dim); font-size: .875rem; }
.kept { color: var(--kept); } .filtered { color: var(--filtered); } .failed { color: var(--failed); }
.note { margin: 1rem 0; padding: .625rem .875rem; background: var(--panel); border-left: 3px solid currentColor;
  overflow-wrap: anywhere; max-width: 48rem; font-size: .9375rem; }
/* Shadows at the sides where the content continues. */
.scroll { overflow-x: auto; background: linear-gradient(90deg, var(--paper) 40%, transparent) 0 0 / 2rem 100% local,
  linear-gradient(270deg, var(--paper) 40%, transparent) 100% 0 / 2rem 100% local,
  linear-gradient(90deg, var(--rule), transparent) 0 0 / .75rem 100%, linear-gradient(270deg, var(--rule), transparent) 100% 0 / .75rem 100%;
  background-repeat: no-repeat; }
:focus-visible { outline: 2px solid var(--line); outline-offset: 2px; }

.figures { display: flex; flex-wrap: wrap; gap: 0 1.5rem; margin-top: 2.25rem; border-top: 1px solid var(--ink); }
.figures div { display: flex; flex-direction: column; flex: 1 0 auto; padding: .75rem 0; }
.figures dt { order: 1; font-size: .875rem; }
.figures dd { font-size: 1.625rem; font-weight: 620; letter-spacing: -0.02em; line-height: 1.2; white-space: nowrap; }
.figures .more { order: 2; font-size: .8125rem; font-weight: 400; letter-spacing: 0; color: var(--dim); white-space: nowrap; }

.film + .film { margin-top: 2.75rem; }
.film h3 { margin-top: 0; font-size: 1.25rem; }
.shots { list-style: none; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(11.5rem, 44%), 1fr)); gap: 1.75rem 1.25rem;
  margin-top: 1.75rem; }
.shots img, .shots .blank { display: block; width: 100%; height: auto; border-radius: 3px; background: var(--panel); }
.shots .lost img { filter: grayscale(1) contrast(.85); opacity: .55; }
.shots figcaption { display: flex; flex-direction: column; gap: .125rem; margin-top: .5rem; font-size: .8125rem; line-height: 1.4; }
.when { display: flex; justify-content: space-between; color: var(--ink); font-size: .875rem; }
.caption { color: var(--ink); quotes: none; overflow-wrap: anywhere;
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 6; overflow: hidden; }
.why { overflow-wrap: anywhere; }
.shots .dim { font-size: .8125rem; }
.blank { display: grid; place-content: center; padding: .5rem; background: var(--panel); color: var(--dim); font-size: .75rem; line-height: 1.35;
  text-align: center; overflow: hidden; overflow-wrap: anywhere; }

.frame { padding: .5rem 1px 1.625rem 3.25rem; }
.area { position: relative; height: 17rem; }
.plot .area { border-bottom: 1px solid var(--dim); } .small .area { height: 7.5rem; }
.timeline { margin-top: 1rem; } .timeline .frame { padding-left: 0; padding-right: 0; } .timeline .area { height: 110px; } .bare .area { height: 16px; }
.area svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.area path { fill: none; vector-effect: non-scaling-stroke; }
.grid { stroke: var(--rule); } .cuts { stroke: var(--paper); stroke-width: 2; }
.area .line { stroke: var(--line); stroke-width: 2; stroke-linejoin: round; } .timeline .line { stroke-width: 1.25; }
.dots { stroke: var(--dots); stroke-width: 3; stroke-linecap: round; }
.threshold { stroke: var(--dim); stroke-dasharray: 3 4; }
rect.kept { fill: var(--kept); } rect.filtered { fill: var(--filtered); } rect.failed { fill: var(--failed); } rect.none { fill: var(--dim); }
.x, .y { position: absolute; font-size: .75rem; line-height: 1; color: var(--dim); white-space: nowrap; }
.y { right: 100%; margin-right: .5rem; transform: translateY(50%); }
.x { top: 100%; margin-top: .5rem; transform: translateX(-50%); }
.first { transform: none; } .last { transform: translateX(-100%); }
.plot figcaption b { color: var(--ink); font-weight: 640; }
.plot { margin-top: 2rem; }
.multiples { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(16rem, 100%), 1fr)); gap: 0 2rem; }
.band { position: absolute; top: 0; bottom: 0; }
.band:hover { background: linear-gradient(var(--dim), var(--dim)) 50% 0 / 1px 100% no-repeat; }
.band:hover::after { content: ""; position: absolute; left: 50%; top: var(--y); width: 9px; height: 9px; margin: -4.5px; border-radius: 50%;
  background: var(--line); box-shadow: 0 0 0 2px var(--paper); }
.shot-band:hover { background: var(--line); opacity: .12; } .shot-band:hover::after { content: none; }
.reading { position: absolute; right: 0; top: 0; padding: .125rem .5rem; background: var(--panel); border-radius: 3px; font-size: .8125rem;
  font-weight: 600; line-height: 1.4; white-space: nowrap; visibility: hidden; pointer-events: none; }
.band:hover + .reading { visibility: visible; }
.key { display: inline-block; margin-right: 1.25rem; white-space: nowrap; }
.key::before { content: ""; display: inline-block; width: .875rem; margin-right: .375rem; vertical-align: .25em; border-top: 2px solid var(--line); }
.key-threshold::before { border-top: 1px dashed var(--dim); }
.key-kept::before { border-top: 12px solid var(--kept); vertical-align: -1px; } .key-filtered::before { border-top: 8px solid var(--filtered); vertical-align: -1px; }
.key-failed::before { border-top: 5px solid var(--failed); vertical-align: -1px; } .key-none::before { border-top-color: var(--dim); vertical-align: -1px; }

.sums { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.75rem 3rem; }
.equation { display: flex; flex-wrap: wrap; gap: 0 .625rem; align-items: baseline; }
.equation span { white-space: nowrap; } .equation i { font-style: normal; color: var(--dim); margin-right: .625rem; }
.equation b { font-size: 1.75rem; font-weight: 620; letter-spacing: -0.02em; margin-right: .4375rem; }
.share { display: flex; gap: 2px; height: 8px; margin: .5rem 0; }
.share i { background: currentColor; flex-basis: 0; min-width: 3px; }
.check { font-size: .875rem; color: var(--dim); } .check.failed { color: var(--failed); }
.tabular { margin-top: 1.75rem; } table { border-collapse: collapse; width: 100%; font-size: .875rem; }
caption { text-align: left; padding-bottom: .5rem; font-weight: 640; color: var(--ink); }
th, td { padding: .4375rem 1.25rem .4375rem 0; text-align: left; vertical-align: baseline; border-top: 1px solid var(--rule); }
th { font-weight: 500; } thead th { color: var(--dim); font-size: .8125rem; border-top-color: var(--ink); }
.n { text-align: right; white-space: nowrap; } .wide { min-width: 16rem; overflow-wrap: anywhere; }
td.t:not(.wide), th.t { white-space: nowrap; }
.times .bar { width: 60%; min-width: 6rem; padding-right: 0; } .bar i { display: block; height: .625rem; min-width: 2px; background: var(--line); }

.facts { display: flex; flex-wrap: wrap; gap: .5rem 1.75rem; margin-top: .75rem; }
.facts dt { font-size: .8125rem; color: var(--dim); } .facts dd { font-weight: 560; }
.pair { margin-top: 1.5rem; } .pair figcaption { margin-top: .375rem; }
.row { min-width: 44rem; } .row + .row { margin-top: .375rem; }
.row-name { display: block; font-size: .75rem; color: var(--dim); }
.row img, .strip img { display: block; width: 100%; height: auto; border-radius: 2px; }
.video + .video { margin-top: 2rem; padding-top: 2rem; border-top: 1px solid var(--rule); }
.video figure { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 1rem 2rem; align-items: start; }
video { display: block; width: 100%; height: auto; border-radius: 4px; background: var(--panel); }
.prompt { display: block; quotes: "“" "”"; color: var(--ink); font-size: 1.25rem; line-height: 1.35; letter-spacing: -0.01em; text-wrap: pretty;
  overflow-wrap: anywhere; margin-bottom: 1rem; }
.video .facts { color: var(--ink); font-size: .9375rem; }
.strip { margin-top: 1rem; } .strip img { min-width: 44rem; }
pre { margin: 0; padding: 1.125rem 1.25rem; background: var(--panel); border-radius: 4px; overflow: auto; max-height: 44rem;
  font: .8125rem/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; tab-size: 2; }
details { margin-top: 1.75rem; } summary { cursor: pointer; font-size: .875rem; font-weight: 640; } details pre { margin-top: .5rem; }
pre .dim { font-size: inherit; } pre .name { color: var(--line); }
@media (max-width: 40rem) {
  .odd { display: none; } .area { height: 13rem; } .video figure { display: block; } .video figcaption { margin-top: .75rem; }
  h2 { font-size: 1.375rem; } .figures { display: grid; grid-template-columns: repeat(3, auto); } .figures dd { font-size: 1.375rem; } .figures .more { white-space: normal; } .equation b { font-size: 1.375rem; }
}
@media print { .scroll, pre { overflow: visible; max-height: none; } .shots li, .plot { break-inside: avoid; } }
)css";

}  // namespace

const char* style_sheet() { return kStyle; }

}  // namespace kinora::core::report
