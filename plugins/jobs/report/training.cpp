// Results of the two kinds of training: curves, and pictures for the tokenizer.
#include <algorithm>

#include "plugins/jobs/report/plot.hpp"
#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

constexpr int kMostPairs = 8;

struct Curve {
  const char* name;  // in metrics.jsonl
  const char* title;
  bool smooth, from_zero;
};
constexpr Curve kSmall[] = {{"learning_rate", "Learning rate", false, true},
                            {"gradient_norm", "Gradient norm", true, false},
                            {"weight_norm", "Weight norm", false, false},
                            {"validation_loss", "Validation loss", false, false},
                            {"tokens_per_second", "Tokens per second", true, true},
                            {"mfu", "Model FLOPs utilisation", true, true},
                            {"l1", "L1", true, false},
                            {"mse", "MSE", true, false}};

void write_curves(Page& page, const JobRecord& job) {
  const Metrics metrics = read_metrics(job);
  const auto loss = metrics.find("loss");
  if (loss == metrics.end())
    return note(page.out, "There is no loss in the metrics.jsonl of job “" + job.name + "”.");
  plot(page.out, loss->second, {.title = "Loss"});
  page.out.in("div", {{"class", "multiples"}}, [&] {
    for (const auto& curve : kSmall)
      if (const auto values = metrics.find(curve.name); values != metrics.end())
        plot(page.out, values->second,
             {.title = curve.title, .small = true, .smooth = curve.smooth, .from_zero = curve.from_zero});
  });
}

// One row of frames with its name.
void write_row(Html& out, const Embedded& image, const std::string& name, const std::string& alt) {
  out.in("div", {{"class", "row"}}, [&] {
    out.leaf("span", {{"class", "row-name"}}, name);
    picture(out, image, {alt, std::max(image.width, 1), std::max(image.height, 1)});
  });
}

void write_pairs(Page& page, const JobRecord& job) {
  const auto folder = job.folder / "samples";
  for (int i = 0; i < kMostPairs; ++i) {
    const std::string end = "_" + std::to_string(i) + ".png";
    std::error_code error;
    if (!std::filesystem::exists(folder / ("original" + end), error)) {
      if (i == 0) note(page.out, "Job “" + job.name + "” left no pictures in its folder samples.");
      return;
    }
    const Embedded original = page.media.png(folder / ("original" + end)),
                   made = page.media.png(folder / ("reconstruction" + end));
    const std::string which = "of sample " + std::to_string(i + 1) + ", its frames from left to right";
    page.out.in("figure", {{"class", "pair"}}, [&] {
      page.out.in(
          "div",
          {{"class", "scroll"}, {"role", "region"}, {"tabindex", "0"}, {"aria-label", "Frames " + which}},
          [&] {
            write_row(page.out, original, "Original", "Original " + which);
            write_row(page.out, made, "Reconstruction", "Reconstruction " + which);
          });
      page.out.leaf("figcaption", {{"class", "dim"}},
                    "Sample " + std::to_string(i + 1) +
                        ": frames of a clip, above the originals, below their reconstructions by the tokenizer.");
    });
  }
}

void write_facts_of(Page& page, const JobRecord& job) {
  auto facts = summary_facts(job);
  if (const auto seconds = number_at(job.summary, "seconds")) facts.push_back({"time", duration(*seconds)});
  fact_list(page.out, facts);
}

// The work of each rank of a launch.
void write_ranks(Page& page, const JobRecord& job) {
  const json& ranks = object_at(job.summary, "ranks");
  const size_t all_ranks = numbers_at(ranks, "steps").size();
  if (all_ranks < 2) return;
  std::vector<std::vector<Cell>> rows;
  for (size_t r = 0; r < all_ranks; ++r) {
    const auto value = [&](const char* key) {
      const auto all = numbers_at(ranks, key);
      return r < all.size() ? all[r] : 0.0;
    };
    const auto whole = [&](const char* key) {
      return Cell{count(static_cast<int64_t>(std::clamp(value(key), 0.0, 1e18)))};
    };
    rows.push_back({{std::to_string(r)},
                    whole("tokens"),
                    whole("loss_tokens"),
                    whole("encoded"),
                    {byte_size(value("bytes_sent"))},
                    {byte_size(value("bytes_received"))},
                    {duration(value("computing_seconds"))},
                    {duration(value("waiting_seconds"))}});
  }
  table(page.out, "Work of each rank",
        {{"Rank", true},
         {"Tokens", true},
         {"Loss tokens", true},
         {"Frames encoded", true},
         {"Sent", true},
         {"Received", true},
         {"Computing", true},
         {"Waiting", true}},
        rows);
}

}  // namespace

void write_tokenizer(Page& page) {
  const auto jobs = page.run.of_kind("train-tokenizer");
  if (jobs.empty()) return;
  section(page, "tokenizer", "Tokenizer", [&] {
    for (const JobRecord* job : jobs) {
      if (job_heading(page, *job)) {
        write_facts_of(page, *job);
        write_ranks(page, *job);
        write_pairs(page, *job);
      }
      write_curves(page, *job);  // also for an unfinished job: they show its progress
    }
  });
}

void write_training(Page& page) {
  const auto jobs = page.run.of_kind("train"), caches = page.run.of_kind("encode");
  if (jobs.empty() && caches.empty()) return;
  section(page, "training", "Training", [&] {
    for (const JobRecord* job : jobs) {
      if (job_heading(page, *job)) {
        write_facts_of(page, *job);
        write_ranks(page, *job);
      }
      write_curves(page, *job);
    }
    if (!caches.empty()) page.out.leaf("h3", {}, "Training data: cached latents");
    for (const JobRecord* job : caches)
      if (job_heading(page, *job)) write_facts_of(page, *job);
  });
}

}  // namespace kinora::core::report
