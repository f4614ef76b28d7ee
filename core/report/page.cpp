#include "core/report/page.hpp"

#include <algorithm>

#include "core/report/sections.hpp"
#include "core/report/words.hpp"

namespace kinora::core::report {
namespace {

// The run in figures. -1: the run has no job of the kind.
struct Totals {
  int64_t films = -1, shots = -1, kept = -1, filtered = -1, failed = -1, shards = -1, tokenizer_steps = -1, steps = -1, videos = -1;
  double seconds = 0;
  std::string finished;  // when the last job ended
};

void add(int64_t& sum, int64_t n) { sum = std::max<int64_t>(sum, 0) + n; }

Totals totals_of(const RunRecord& run, const std::map<const JobRecord*, Curation>& curations) {
  Totals t;
  for (const auto& job : run.jobs) {
    t.seconds += number_at(job.summary, "seconds").value_or(0);
    t.finished = std::max(t.finished, text_at(job.summary, "finished"));
    if (job.kind == "curate") {
      const json& clips = object_at(job.summary, "clips");
      add(t.films, count_at(job.summary, "inputs"));
      add(t.kept, count_at(clips, "kept"));
      add(t.filtered, count_at(clips, "filtered"));
      add(t.failed, count_at(clips, "failed"));
      add(t.shots, 0);
      for (const auto& film : curations.at(&job).films) add(t.shots, static_cast<int64_t>(film.shots.size()));
    }
    if (job.kind == "shard") add(t.shards, count_at(job.summary, "shards"));
    if (job.kind == "train-tokenizer") add(t.tokenizer_steps, count_at(job.summary, "steps"));
    if (job.kind == "train") add(t.steps, count_at(job.summary, "steps"));
    if (job.kind == "generate") add(t.videos, static_cast<int64_t>(files_in(job.folder / "videos", ".mp4").size()));
  }
  return t;
}

std::map<const JobRecord*, Curation> curations_of(const RunRecord& run) {
  std::map<const JobRecord*, Curation> out;
  for (const auto& job : run.jobs)
    if (job.kind == "curate") out.emplace(&job, read_curation(job));
  return out;
}

struct Figure {
  std::string name, value, more;
};

std::vector<Figure> figures_of(const Totals& t) {
  std::vector<Figure> out;
  const auto figure = [&](int64_t n, const char* one, std::string more = {}) {
    if (n >= 0) out.push_back({std::string(one) + (n == 1 ? "" : "s"), count(n), std::move(more)});
  };
  figure(t.films, "film");
  figure(t.shots, "shot");
  if (t.kept >= 0) out.push_back({t.kept == 1 ? "clip kept" : "clips kept", count(t.kept), count(t.filtered) + " filtered, " + count(t.failed) + " failed"});
  figure(t.shards, "shard");
  const std::string also = t.tokenizer_steps < 0 ? "" : "and " + count(t.tokenizer_steps) + " of the tokenizer";
  if (t.steps >= 0) figure(t.steps, "training step", also);
  else figure(t.tokenizer_steps, "tokenizer step");
  figure(t.videos, "video");
  out.push_back({"in all", duration(t.seconds), ""});
  return out;
}

std::string line_of(const Totals& t) {
  std::string out;
  for (const auto& f : figures_of(t)) out += (out.empty() ? "" : ", ") + f.value + " " + f.name + (f.more.empty() ? "" : " (" + f.more + ")");
  return out;
}

void write_head(Html& out, const RunRecord& run, const std::string& line) {
  out.in("head", {}, [&] {
    out.single("meta", {{"charset", "utf-8"}});
    // Even if markup of others came into the page, a browser would load nothing and run nothing for it.
    out.single("meta", {{"http-equiv", "Content-Security-Policy"},
                        {"content", "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"}});
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
    if (t.finished.size() >= 16) about += " · finished " + t.finished.substr(0, 10) + " " + t.finished.substr(11, 5) + " UTC";
    out.leaf("p", {{"class", "dim"}}, about);
    out.in("dl", {{"class", "figures"}}, [&] {
      for (const auto& f : figures_of(t))
        out.in("div", {}, [&] {
          out.leaf("dt", {}, f.name);
          out.leaf("dd", {}, f.value);
          if (!f.more.empty()) out.leaf("dd", {{"class", "more"}}, f.more);
        });
    });
    const auto unfinished = std::count_if(run.jobs.begin(), run.jobs.end(), [](const JobRecord& job) { return !job.done(); });
    if (unfinished > 0) note(out, "This run is not complete: " + counted(unfinished, "job") + (unfinished == 1 ? " has" : " have") + " not finished.");
  });
}

}  // namespace

std::string summary_line(const RunRecord& run) { return line_of(totals_of(run, curations_of(run))); }

std::string make_page(const RunRecord& run, StillSource still) {
  Page page{{}, run, std::move(still), {}, curations_of(run)};
  const Totals totals = totals_of(run, page.curations);
  auto& out = page.out;
  out.constant("<!DOCTYPE html>\n");
  out.in("html", {{"lang", "en"}}, [&] {
    write_head(out, run, line_of(totals));
    out.in("body", {}, [&] {
      write_top(out, run, totals);
      out.in("main", {}, [&] {
        for (const auto write : {write_films, write_outcomes, write_tokenizer, write_training, write_videos, write_times, write_settings}) write(page);
      });
    });
  });
  return out.str();
}

}  // namespace kinora::core::report
