// How long each job took, and the run's options and versions.
#include <algorithm>

#include <fmt/format.h>

#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

std::string share_text(double part, double whole) {
  const double share = whole > 0 ? part / whole : 0;
  return share > 0 && share < 0.001 ? "< 0.1%" : fmt::format("{:.1f}%", 100 * share);
}

void write_time_row(Html& out, const JobRecord& job, double longest, double total) {
  const auto seconds = number_at(job.summary, "seconds");
  out.in("tr", {}, [&] {
    out.leaf("th", {{"scope", "row"}, {"class", "t"}}, job.name);
    out.leaf("td", {{"class", "n"}}, seconds ? duration(*seconds) : "–");
    out.leaf("td", {{"class", "n dim"}}, seconds ? share_text(*seconds, total) : "");
    out.in("td", {{"class", "bar"}}, [&] {
      if (!seconds)
        out.leaf("span", {{"class", "dim"}}, job.done() ? "not measured" : "not finished");
      else
        out.leaf("i", {{"style", "width:" + percent(longest > 0 ? *seconds / longest : 0)}});
    });
  });
}

// Highlights comments and headings of the TOML. Each line is parsed alone, so multi-line text may be coloured
// wrongly; nothing else depends on it.
void write_toml(Html& out, const std::string& toml) {
  out.in("pre", {{"tabindex", "0"}, {"aria-label", "The run file"}}, [&] {
    size_t at = 0;
    while (at < toml.size()) {
      const size_t end = std::min(toml.find('\n', at), toml.size() - 1) + 1;
      const std::string line = toml.substr(at, end - at);
      const size_t first = line.find_first_not_of(" \t");
      const char c = first == std::string::npos ? ' ' : line[first];
      const size_t equals = line.find('=');
      if (c == '#') {
        out.leaf("span", {{"class", "dim"}}, line);
      } else if (c == '[' && equals == std::string::npos) {
        out.leaf("b", {}, line);
      } else if (equals != std::string::npos && line.find_first_of("\"'#") > equals) {
        out.leaf("span", {{"class", "name"}}, line.substr(0, equals));
        out.text(line.substr(equals));
      } else {
        out.text(line);
      }
      at = end;
    }
  });
}

// Every option, including defaults: values from the command line appear here and not in the run file.
void write_options(Html& out, const JobRecord& job) {
  json all{{"options", job.options}};
  for (const auto& c : job.components)
    all["components"].push_back({{"slot", c.slot}, {"use", c.id}, {"options", c.options}});
  out.leaf("h3", {}, job.name + " · " + job.kind);
  out.leaf("pre", {{"tabindex", "0"}, {"aria-label", "Options of " + job.name}},
           all.dump(2, ' ', false, json::error_handler_t::replace));
}

}  // namespace

void write_times(Page& page) {
  double total = 0, longest = 0;
  for (const auto& job : page.run.jobs) {
    const double seconds = number_at(job.summary, "seconds").value_or(0);
    total += seconds;
    longest = std::max(longest, seconds);
  }
  section(page, "time", "Time per job", [&] {
    auto& out = page.out;
    out.in("div",
           {{"class", "scroll tabular"},
            {"role", "region"},
            {"tabindex", "0"},
            {"aria-label", "Time of each job"}},
           [&] {
             out.in("table", {{"class", "times"}}, [&] {
               out.leaf("caption", {}, "Time of each job: " + duration(total) + " in all");
               out.constant(
                   "<thead><tr><th scope=\"col\" class=\"t\">Job</th><th scope=\"col\" class=\"n\">Time</th>"
                   "<th scope=\"col\" class=\"n\">Share</th><th scope=\"col\" "
                   "class=\"bar\">Compared</th></tr></thead>\n");
               out.in("tbody", {}, [&] {
                 for (const auto& job : page.run.jobs) write_time_row(out, job, longest, total);
               });
             });
           });
  });
}

void write_settings(Page& page) {
  section(page, "settings", "Run file and versions", [&] {
    auto& out = page.out;
    if (page.run.toml.empty())
      note(out, "The run file " + page.run.file + " can no longer be read.");
    else
      write_toml(out, page.run.toml);
    std::vector<std::vector<Cell>> rows{{{"Kinora"}, {""}, {""}, {page.run.version}}};
    for (const auto& job : page.run.jobs)
      for (const auto& c : job.components) rows.push_back({{job.name}, {c.slot, "dim"}, {c.id}, {c.version}});
    table(out, "Versions of the components of each job", {{"Job"}, {"Slot"}, {"Component"}, {"Version"}}, rows);
    out.in("details", {}, [&] {
      out.leaf("summary", {}, "All options as used, including defaults");
      for (const auto& job : page.run.jobs) write_options(out, job);
    });
  });
}

}  // namespace kinora::core::report
