// Outcomes of all inputs and clips from items.jsonl, compared with the counts of summary.json.
#include <fmt/format.h>

#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

struct Sums {
  int64_t kept = 0, filtered = 0, failed = 0;
  int64_t all() const { return kept + filtered + failed; }
  bool operator==(const Sums&) const = default;
  void add(const Item& item) {
    kept += item.end == "kept";
    filtered += item.end == "filtered";
    failed += item.end == "failed";
  }
};

Sums sums_at(const json& counts) {
  return {count_at(counts, "kept"), count_at(counts, "filtered"), count_at(counts, "failed")};
}

void write_bar(Html& out, const Sums& s) {
  out.in("div", {{"class", "share"}, {"aria-hidden", "true"}}, [&] {
    for (const auto& [end, n] : {std::pair{"kept", s.kept}, {"filtered", s.filtered}, {"failed", s.failed}})
      if (n > 0) out.leaf("i", {{"class", end}, {"style", "flex-grow:" + std::to_string(n)}});
  });
}

// Writes "12 clips = 9 kept + 2 filtered + 1 failed", and whether it is true.
void write_equation(Html& out, std::string_view one, int64_t all, const Sums& said, const Sums& found,
                    bool whole) {
  out.in("div", {{"class", "sum"}}, [&] {
    out.in("p", {{"class", "equation"}}, [&] {
      out.in("span", {},
             [&] { out.leaf("b", {}, count(all)), out.text(all == 1 ? one : std::string(one) + "s"); });
      const char* sign = "=";
      for (const auto& [end, n] :
           {std::pair{"kept", said.kept}, {"filtered", said.filtered}, {"failed", said.failed}}) {
        out.in("span", {{"class", end}},
               [&] { out.leaf("i", {}, sign), out.leaf("b", {}, count(n)), out.text(end); });
        sign = "+";
      }
    });
    write_bar(out, said);
    if (all != said.all()) {
      out.leaf("p", {{"class", "check failed"}},
               fmt::format("✗ Does not add up: the ends sum to {}.", count(said.all())));
    } else if (!(said == found) || !whole) {
      out.leaf("p", {{"class", "check failed"}},
               fmt::format("✗ items.jsonl has {} kept, {} filtered, {} failed{}.", count(found.kept),
                           count(found.filtered), count(found.failed),
                           whole ? "" : ", and lines that cannot be read"));
    } else {
      out.leaf("p", {{"class", "check"}},
               fmt::format("✓ Adds up, and items.jsonl has a line for each of the {}.", count(all)));
    }
  });
}

void write_job(Page& page, const JobRecord& job) {
  const Curation& curation = page.curations[&job];
  Sums inputs, clips;
  for (const auto& film : curation.films) {
    inputs.add(film.item);
    for (const auto& clip : film.clips) clips.add(clip);
  }
  const bool whole = curation.found && curation.broken == 0;
  const Sums clips_said = sums_at(object_at(job.summary, "clips"));
  page.out.in("div", {{"class", "sums"}}, [&] {
    write_equation(page.out, "input", count_at(job.summary, "inputs"), sums_at(job.summary), inputs, whole);
    if (const auto damaged = count_at(job.summary, "damaged"); damaged > 0)
      page.out.leaf("p", {{"class", "check failed"}},
                    fmt::format("✗ {} damaged: what could be decoded was used.", counted(damaged, "input")));
    write_equation(page.out, "clip", clips_said.all(), clips_said, clips, whole);
  });
  write_outcome_tables(page.out, curation);
}

}  // namespace

void write_outcomes(Page& page) {
  const auto curations = page.run.of_kind("curate"), shards = page.run.of_kind("shard");
  if (curations.empty() && shards.empty()) return;
  section(page, "outcomes", "Outcomes", [&] {
    for (const JobRecord* job : curations)
      if (job_heading(page, *job)) write_job(page, *job);
    if (!shards.empty()) page.out.leaf("h3", {}, "Shards");
    for (const JobRecord* job : shards)
      if (job_heading(page, *job)) fact_list(page.out, summary_facts(*job));
  });
}

}  // namespace kinora::core::report
