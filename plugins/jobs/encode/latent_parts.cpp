#include "plugins/jobs/encode/latent_parts.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/regular_file.hpp"
#include "core/io/atomic_file.hpp"
#include "core/torch/media/signals.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/encode/latent_statistics.hpp"
#include "plugins/jobs/encode/other_rates.hpp"
#include "plugins/jobs/latents/latents.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Enough parts to divide the work evenly among hundreds of ranks, and few enough for one folder.
constexpr int64_t kParts = 4096;

constexpr uint64_t kLargestPart = uint64_t{1} << 30;  // bytes of its outcomes

// No list if it is missing or damaged.
json read_json(const fs::path& file) {
  const auto text = read_regular_file(file, kLargestPart);
  return text ? json::parse(*text, nullptr, false) : json();
}

}  // namespace

LatentParts::LatentParts(const fs::path& folder, int64_t clips)
    : folder_(folder / ".parts"), clips_(clips), each_(std::max<int64_t>(1, (clips + kParts - 1) / kParts)) {}

int64_t LatentParts::last_clip(int64_t part) const { return std::min(clips_, (part + 1) * each_); }

fs::path LatentParts::file(int64_t part, const char* end) const {
  return folder_ / fmt::format("{:06}{}", part, end);
}

json LatentParts::outcomes(int64_t part) const {
  const json out = read_json(file(part, ".json"));
  if (!out.is_array() || static_cast<int64_t>(out.size()) != last_clip(part) - first_clip(part))
    throw Error(KINORA_ERROR_DATA,
                file(part, ".json").string() + ": the file is damaged; remove it and run again");
  return out;
}

void LatentParts::finish(int64_t part, const json& outcomes) const {
  or_throw(write_file_atomically(file(part, ".json"), outcomes.dump() + "\n"));
}

std::vector<bool> LatentParts::begin() const {
  fs::create_directories(folder_);
  fs::remove(folder_ / "failed");
  std::vector<bool> there;
  for (int64_t part = 0; part < size(); ++part) {
    const json found = read_json(file(part, ".json"));
    const bool whole = found.is_array() && std::none_of(found.begin(), found.end(), [](const json& clip) {
                         return text_in(clip, "outcome") == "failed";
                       });
    if (!whole) fs::remove(file(part, ".json"));
    there.push_back(whole);
  }
  return there;
}

void LatentParts::leave_failure(const std::string& why) const {
  const auto status = write_file_atomically(folder_ / "failed", why);
  if (!status) log_warn("{}", status.failure().message);
}

void LatentParts::wait_for(const std::vector<int64_t>& parts, const std::string& job) const {
  int64_t tenths = 0;
  for (size_t i = 0; i < parts.size(); ++i)
    while (!fs::exists(file(parts[i], ".json"))) {
      if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
      if (const auto why = read_regular_file(folder_ / "failed")) throw Error(KINORA_ERROR_FAILED, *why);
      if (++tenths % 600 == 0)
        log_info("{}: waiting for other ranks: {} of {} of their parts are left", job, parts.size() - i,
                 parts.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

void LatentParts::remove() const { fs::remove_all(folder_); }

namespace {

class Merge {
 public:
  Merge(const fs::path& folder, const std::string& job, const LatentParts& parts, Clips& clips,
        const EncodeOptions& options)
      : folder_(folder),
        job_(job),
        parts_(parts),
        clips_(clips),
        options_(options),
        signals_(options.signals, options.every),
        cache_(folder / "latents.h5", json{{"job", job}}.dump()),
        rates_(clips.fps() / static_cast<double>(options.every)) {}

  json run() {
    for (int64_t part = 0; part < parts_.size(); ++part) {
      if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
      add_part(part);
    }
    require_some();
    finish();
    parts_.remove();
    return {{"samples", counts_["windows"]},
            {"clips", clips_.size()},
            {"too_short", counts_["too_short"]},
            {"failed", counts_["failed"]},
            {"without_signal", counts_["without_signal"]},
            {"latent_shape", facts_.shape},
            {"bytes", fs::file_size(folder_ / "latents.h5")}};
  }

 private:
  void add_part(int64_t part) {
    const json outcomes = parts_.outcomes(part);
    std::optional<LatentCache> cache;
    for (int64_t i = parts_.first_clip(part); i < parts_.last_clip(part); ++i) {
      const json& clip = outcomes.at(static_cast<size_t>(i - parts_.first_clip(part)));
      // In order, since the first clip decides the length of a list.
      const auto given = signals_.of(clip.value("facts", json()), why_);
      if (!given) {
        ++counts_["without_signal"];
        log_warn("{}: clip {} is left out: {}", job_, clips_.key(i), why_);
        continue;
      }
      if (clip.at("outcome") != "encoded") ++counts_[clip.at("outcome")];
      rates_.add(number_in(clip, "fps") / static_cast<double>(options_.every));
      for (const int64_t first : clip.value("windows", std::vector<int64_t>())) {
        if (!cache) cache.emplace(parts_.cache(part));
        add(clips_.key(i) + "@" + std::to_string(first), *cache, *given);
      }
    }
  }

  void add(const std::string& key, const LatentCache& from, NamedTensors tensors) {
    tensors.merge(from.read(key));
    const auto latent = tensors.find("latent");
    facts_.shape = (latent == tensors.end() ? tensors.at("codes") : latent->second).sizes().vec();
    facts_.text_size = tensors.at("text").size(1);
    if (latent != tensors.end()) statistics_.add(latent->second);
    cache_.add(key, tensors);
    ++counts_["windows"];
  }

  void require_some() {
    if (counts_["windows"] > 0) return;
    parts_.remove();
    if (counts_["without_signal"] > 0)
      raise(KINORA_ERROR_DATA, "no clip can be used; of {} clips {} lack a signal, the last one because {}",
            clips_.size(), counts_["without_signal"], why_);
    throw clips_.none_usable(counts_["too_short"], counts_["failed"], options_.frames);
  }

  void finish() {
    facts_.scale = statistics_.scale(options_);
    facts_.fps = rates_.taken();
    rates_.log(job_, options_.signals);
    cache_.commit();
    or_throw(write_file_atomically(folder_ / "latents.json", facts_.to_json().dump(2) + "\n"));
  }

  const fs::path& folder_;
  const std::string& job_;
  const LatentParts& parts_;
  Clips& clips_;
  const EncodeOptions& options_;
  Signals signals_;
  LatentCacheWriter cache_;
  OtherRates rates_;
  LatentStatistics statistics_;
  LatentFacts facts_;
  std::map<std::string, int64_t> counts_;
  std::string why_;  // why the last clip lacks a signal
};

}  // namespace

json merge_latents(const fs::path& folder, const std::string& job, const LatentParts& parts, Clips& clips,
                   const EncodeOptions& options) {
  return Merge(folder, job, parts, clips, options).run();
}

}  // namespace kinora::core
