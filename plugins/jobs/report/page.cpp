#include "plugins/jobs/report/page.hpp"

#include <algorithm>

#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/totals.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

void write_head(Html& out, const RunRecord& run, const std::string& line) {
  out.in("head", {}, [&] {
    out.single("meta", {{"charset", "utf-8"}});
    // Even if foreign markup came into the page, a browser would load and run nothing for it.
    out.single("meta", {{"http-equiv", "Content-Security-Policy"},
                        {"content",
                         "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; "
                         "form-action 'none'; base-uri 'none'"}});
    out.single("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
    out.single("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
    out.single("meta", {{"name", "description"}, {"content", line}});
    out.leaf("title", {}, run.title + " – Kinora");
    out.in("style", {}, [&] { out.constant(style_sheet()); });
  });
}

void write_top(Html& out, const RunRecord& run, const Totals& t) {
  out.in("header", {}, [&] {
    out.leaf("h1", {}, run.title);
    std::string about = run.file + " · seed " + std::to_string(run.seed) + " · Kinora " + run.version;
    if (t.finished.size() >= 16)
      about += " · finished " + t.finished.substr(0, 10) + " " + t.finished.substr(11, 5) + " UTC";
    out.leaf("p", {{"class", "dim"}}, about);
    out.in("dl", {{"class", "figures"}}, [&] {
      for (const auto& f : figures_of(t))
        out.in("div", {}, [&] {
          out.leaf("dt", {}, f.name);
          out.leaf("dd", {}, f.value);
          if (!f.more.empty()) out.leaf("dd", {{"class", "more"}}, f.more);
        });
    });
    const auto unfinished =
        std::count_if(run.jobs.begin(), run.jobs.end(), [](const JobRecord& job) { return !job.done(); });
    if (unfinished > 0)
      note(out, "This run is not complete: " + counted(unfinished, "job") +
                    (unfinished == 1 ? " has" : " have") + " not finished.");
  });
}

}  // namespace

Made make_page(const RunRecord& run, StillSource still) {
  Page page{{}, run, std::move(still), {}, curations_of(run)};
  const Totals totals = totals_of(run, page.curations);
  const std::string line = line_of(totals);
  auto& out = page.out;
  out.constant("<!DOCTYPE html>\n");
  out.in("html", {{"lang", "en"}}, [&] {
    write_head(out, run, line);
    out.in("body", {}, [&] {
      write_top(out, run, totals);
      out.in("main", {}, [&] {
        for (const auto write : {write_films, write_outcomes, write_tokenizer, write_training, write_videos,
                                 write_times, write_settings})
          write(page);
      });
    });
  });
  return {out.str(), line};
}

}  // namespace kinora::core::report
