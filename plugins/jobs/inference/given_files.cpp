#include "plugins/jobs/inference/given_files.hpp"

#include <algorithm>
#include <cmath>

#include <sys/stat.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/sample/sample.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "host/stages/one_stage.hpp"
#include "plugins/jobs/media/clips.hpp"

namespace kinora::core {
namespace {

constexpr double kSmallCut = 0.02;  // share of a picture whose loss is not reported
constexpr size_t kKnown = 16;       // videos

Sample sample_of_file(const std::filesystem::path& file) {
  Sample out(key_of_name(file.stem().string()));
  out.set("url", file.string());
  return out;
}

void require_undamaged(const Sample& read) {
  if (const auto damage = damage_in(read); !damage.empty()) throw Error(KINORA_ERROR_DATA, damage);
}

// A file that changes under its name is another one.
std::string identity(const std::filesystem::path& file) {
  struct stat s {};
  if (stat(file.c_str(), &s) != 0) return file.string();
  return fmt::format("{} {} {} {}.{}", file.string(), s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

}  // namespace

GivenFiles::GivenFiles(Runtime& runtime, std::string whose, double rate, bool says)
    : runtime_(runtime), whose_(std::move(whose)), rate_(rate), says_(says) {}

bool GivenFiles::is_news(const std::string& about) {
  const std::scoped_lock lock(mutex_);
  return says_ && noted_.insert(about).second;
}

at::Tensor GivenFiles::read(const std::filesystem::path& file, int64_t first, int64_t count,
                            const FrameSize& size) {
  const OneStage stage(
      runtime_, "video.read",
      nlohmann::json{{"first", first},
                     {"frames", count},
                     {"height", size.height},
                     {"width", size.width},
                     {"memory", std::max(3 * count * size.height * size.width, int64_t{1} << 30)}});
  const Sample made = stage(sample_of_file(file));
  require_undamaged(made);
  const double share = cut_off(made);
  if (share > kSmallCut && is_news("cut " + file.string()))
    log_warn("{}: {}", whose_, cut_off_text(file.string(), share, size.height, size.width));
  return frames_of_sample(made);
}

at::Tensor GivenFiles::picture(const std::filesystem::path& file, const FrameSize& size) {
  return read(file, 0, 1, size);
}

at::Tensor GivenFiles::video(const std::filesystem::path& file, int64_t first, int64_t count,
                             const FrameSize& size) {
  note_rate(file);
  at::Tensor out = read(file, first, count, size);
  if (out.size(0) < count)
    raise(KINORA_ERROR_INVALID, "{} has {} frames; {} are needed", file.string(), first + out.size(0),
          first + count);
  return out;
}

nlohmann::json GivenFiles::facts(const std::filesystem::path& file, bool count) {
  const std::string id = identity(file);
  const auto serves = [&](const nlohmann::json& found) {
    return !count || (found.at("frames_estimated") == false && number_in(found, "frames") > 0);
  };
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [known, found] : facts_)
      if (known == id && serves(found)) return found;
  }
  const auto probe = [&](bool by_decoding) {
    const OneStage stage(runtime_, "video.probe", nlohmann::json{{"count", by_decoding}, {"packets", count}});
    const Sample probed = stage(sample_of_file(file));
    require_undamaged(probed);
    return parse_facts(probed.text("json").value_or("null"));
  };
  nlohmann::json out = probe(false);
  if (!serves(out)) out = probe(true);
  const std::scoped_lock lock(mutex_);
  std::erase_if(facts_, [&](const auto& known) { return known.first == id; });
  facts_.emplace_back(id, out);
  if (facts_.size() > kKnown) facts_.pop_front();
  return out;
}

int64_t GivenFiles::length(const std::filesystem::path& file) {
  return std::llround(number_in(facts(file, true), "frames"));
}

double GivenFiles::rate(const std::filesystem::path& file) { return number_in(facts(file, false), "fps"); }

void GivenFiles::note_rate(const std::filesystem::path& file) {
  const double its = rate(file);
  if (rate_ <= 0 || its <= 0 || std::abs(its - rate_) < 0.01 * rate_ || length(file) < 2) return;
  if (is_news("rate " + file.string()))
    log_warn(
        "{}: {} has {:.4g} frames per second and the result {:.4g}: its frames are used one by one, so what "
        "they show moves {:.2g} times as fast; convert it to {:.4g} first, or set fps",
        whose_, file.string(), its, rate_, rate_ / its, rate_);
}

at::Tensor GivenFiles::continued(const std::filesystem::path& file, int64_t wanted, bool from_end,
                                 int64_t frames, int64_t time, const FrameSize& size) {
  if (wanted == 0) return {};
  const int64_t all = length(file), count = continued_frames(wanted, all, frames, time),
                first = from_end ? all - count : 0;
  if (all < count)
    raise(KINORA_ERROR_INVALID, "{} has {} frames; condition_frames = {} are needed", file.string(), all,
          count);
  if (is_news("continued " + file.string()))
    log_info("{}: {}: frames {} to {} of {} are given", whose_, file.string(), first + 1, first + count, all);
  return video(file, first, count, size);
}

int64_t continued_frames(int64_t wanted, int64_t length, int64_t frames, int64_t time) {
  if (wanted >= 0) return wanted;
  const int64_t most = std::max<int64_t>(frames - time, 1),
                all = length < frames ? 1 + (std::max<int64_t>(length, 1) - 1) / time * time : 1 + time;
  return std::min(all, most);
}

}  // namespace kinora::core
