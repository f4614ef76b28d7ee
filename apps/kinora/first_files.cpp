#include "apps/kinora/first_files.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/paths.hpp"
#include "core/base/quantity.hpp"

namespace kinora {
namespace {

// Core-seconds for a second of video: what does not depend on its size, and for each million pixels of a frame. More
// than docs/benchmarks/epyc-2core.md measured ("A folder of videos by `kinora curate`"): other work runs beside it.
constexpr double kFixed = 0.4, kPerMegapixel = 1.2;
// The steps of train.toml.inc, and core-seconds of one by `kinora plan --cluster 1x1xcpu`.
constexpr double kSteps = 10000, kStep = 115;
// Clips as H.264 beside their source, and previews and frames.
constexpr double kSizeOfClips = 1.2;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool has_asset(std::string_view name) { return static_cast<bool>(core::find_asset(name)); }

constexpr const char* kCurate =
#include "apps/kinora/first_files/curate.toml.inc"
    ;

// The network's weights may not be installed.
constexpr const char* kNetwork =
    R"({ use = "video.clips", detectors = ["transnetv2"], sample_fps = 4.0, sample_height = 180 })";
constexpr const char* kNoNetwork =
    R"(# TransNet V2 finds shots better; docs/operate.md says how its weights come: detectors = ["transnetv2"]
  { use = "video.clips", detectors = ["adaptive", "threshold"], shot_min_length = 6, tolerance = 2,)"
    R"( sample_fps = 4.0, sample_height = 180 })";
constexpr const char* kSearch = R"(
# kinora search runs/{name} "a boat at sea"
[[job]]
name = "captions"
kind = "embed-text"
input = "clips"
words = {{ use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }}
)";

constexpr const char* kTrain =
#include "apps/kinora/first_files/train.toml.inc"
    ;

constexpr const char* kModel =
#include "apps/kinora/first_files/model.toml.inc"
    ;

// Rounded up.
std::string time_text(double core_seconds) {
  const double minutes = core_seconds / std::max(1u, std::thread::hardware_concurrency()) / 60;
  const auto whole = [](double number) { return static_cast<int64_t>(std::ceil(number)); };
  if (minutes < 90) return "about " + core::counted(whole(minutes), "minute", "minutes");
  if (minutes < 72 * 60) return fmt::format("about {} hours", whole(minutes / 60));
  return fmt::format("about {} days", whole(minutes / 60 / 24));
}

}  // namespace

std::string expected_text(const FolderLook& look) {
  if (look.holds == FolderLook::Holds::model) return "";
  if (look.holds != FolderLook::Holds::videos)
    return fmt::format(
        "{} without a GPU for {:.0f} steps, and far less with one; ten steps tell more (--set dit.steps=10)",
        time_text(kSteps * kStep), kSteps);
  return fmt::format(
      "{}, and {} of disk", time_text(look.seconds * kFixed + look.megapixel_seconds * kPerMegapixel),
      core::format_size(static_cast<uint64_t>(static_cast<double>(look.bytes) * kSizeOfClips)));
}

std::string run_file_for(const FolderLook& look, const std::string& name, const std::string& file) {
  using Holds = FolderLook::Holds;
  const char* form = look.holds == Holds::videos ? kCurate : look.holds == Holds::model ? kModel : kTrain;
  const std::string folder = look.folder.string();
  const auto filled = [&](const char* text, const std::string& search) {
    return fmt::format(
        fmt::runtime(text), fmt::arg("folder", folder), fmt::arg("folder_quoted", quoted(folder)),
        fmt::arg("name", name), fmt::arg("name_quoted", quoted(name)), fmt::arg("file", file),
        fmt::arg("found", look.text()), fmt::arg("expected", expected_text(look)),
        fmt::arg("prompt", quoted(look.caption.empty() ? "A short bright video." : look.caption)),
        fmt::arg("clips", has_asset("transnetv2/transnetv2.safetensors") ? kNetwork : kNoNetwork),
        fmt::arg("search", search));
  };
  return filled(form, has_asset("minilm/vocab.txt") ? filled(kSearch, "") : "");
}

}  // namespace kinora
