#include "plugins/jobs/report/totals.hpp"

#include <algorithm>

#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

void add(int64_t& sum, int64_t n) { sum = std::max<int64_t>(sum, 0) + n; }

std::string losses(int64_t filtered, int64_t failed) {
  std::string out = filtered > 0 ? count(filtered) + "\u00A0filtered" : "";
  if (failed > 0) out += (out.empty() ? "" : ", ") + count(failed) + "\u00A0failed";
  return out;
}

}  // namespace

Totals totals_of(const RunRecord& run, const std::map<const JobRecord*, Curation>& curations) {
  Totals t;
  for (const auto& job : run.jobs) {
    t.seconds += number_at(job.summary, "seconds").value_or(0);
    t.finished = std::max(t.finished, text_at(job.summary, "finished"));
    if (job.kind == "curate") {
      const json& clips = object_at(job.summary, "clips");
      add(t.films, count_at(job.summary, "inputs"));
      t.films_filtered += count_at(job.summary, "filtered");
      t.films_failed += count_at(job.summary, "failed");
      add(t.kept, count_at(clips, "kept"));
      add(t.filtered, count_at(clips, "filtered"));
      add(t.failed, count_at(clips, "failed"));
      add(t.shots, 0);
      for (const auto& film : curations.at(&job).films) add(t.shots, static_cast<int64_t>(film.shots.size()));
    }
    if (job.kind == "shard") add(t.shards, count_at(job.summary, "shards"));
    if (job.kind == "train-tokenizer") add(t.tokenizer_steps, count_at(job.summary, "steps"));
    if (job.kind == "train") add(t.steps, count_at(job.summary, "steps"));
    if (job.kind == "generate")
      add(t.videos, static_cast<int64_t>(files_in(job.folder / "videos", ".mp4").size()));
  }
  return t;
}

std::map<const JobRecord*, Curation> curations_of(const RunRecord& run) {
  std::map<const JobRecord*, Curation> out;
  for (const auto& job : run.jobs)
    if (job.kind == "curate") out.emplace(&job, read_curation(job));
  return out;
}

std::vector<Figure> figures_of(const Totals& t) {
  std::vector<Figure> out;
  const auto figure = [&](int64_t n, const char* one, std::string more = {}) {
    if (n >= 0) out.push_back({std::string(one) + (n == 1 ? "" : "s"), count(n), std::move(more)});
  };
  figure(t.films, "source video", losses(t.films_filtered, t.films_failed));
  figure(t.shots, "shot");
  if (t.kept >= 0)
    out.push_back({t.kept == 1 ? "clip kept" : "clips kept", count(t.kept), losses(t.filtered, t.failed)});
  figure(t.shards, "shard");
  const std::string also = t.tokenizer_steps < 0 ? "" : "+ " + count(t.tokenizer_steps) + "\u00A0tokenizer";
  if (t.steps >= 0)
    figure(t.steps, "training step", also);
  else
    figure(t.tokenizer_steps, "tokenizer step");
  figure(t.videos, "video");
  out.push_back({"total time", duration(t.seconds), ""});
  return out;
}

std::string line_of(const Totals& t) {
  std::string out;
  for (const auto& f : figures_of(t))
    out +=
        (out.empty() ? "" : ", ") + f.value + "\u00A0" + f.name + (f.more.empty() ? "" : " (" + f.more + ")");
  return out;
}

}  // namespace kinora::core::report
