#include "apps/kinora/folder_look.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/base/quantity.hpp"
#include "core/base/text_encoding.hpp"
#include "core/runtime/runtime.hpp"
#include "host/stages/one_stage.hpp"
#include "plugins/jobs/curation/input_rows.hpp"
#include "plugins/jobs/curation/webdataset.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using core::json;

constexpr size_t kOpened = 12, kFew = 200;  // of so few each one is opened
constexpr size_t kClips = 256;              // of shards

// The tar files directly in the folder.
std::vector<fs::path> tars_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".tar" && entry.is_regular_file(error)) out.push_back(entry.path());
  return out;
}

void count(FolderLook& look, const std::vector<fs::path>& files) {
  look.files = static_cast<int64_t>(files.size());
  std::error_code error;
  for (const auto& file : files)
    if (const auto size = fs::file_size(file, error); !error) look.bytes += size;
}

void add_rate(FolderLook& look, double fps) {
  if (!(fps > 0)) return;
  look.slowest = look.fastest > 0 ? std::min(look.slowest, fps) : fps;
  look.fastest = std::max(look.fastest, fps);
}

// Reads the facts and captions of the first clips. The jobs report unreadable ones.
void look_into(FolderLook& look, std::vector<fs::path> tars) {
  std::ranges::sort(tars);
  count(look, tars);
  if (tars.empty()) return;
  const auto shard = core::WebDatasetShard::open_or_scan(tars.front().string());
  if (!shard) return;
  const auto text_at = [&](size_t i, const char* field) {
    const auto bytes = shard->field(i, field);
    if (!bytes || !*bytes) return std::string();
    auto text = core::utf8_text({(*bytes)->begin(), (*bytes)->end()}, tars.front().string());
    return text ? std::move(*text) : std::string();
  };
  std::map<std::string, int64_t> captions;
  int64_t most = 0;
  for (size_t i = 0; i < std::min(shard->size(), kClips); ++i) {
    add_rate(look, core::number_in(core::parse_facts(text_at(i, "json")), "fps"));
    std::string caption = text_at(i, "txt");
    caption.erase(caption.find_last_not_of(" \r\n\t") + 1);
    if (caption.empty() || ++captions[caption] <= most) continue;
    most = captions[caption];
    look.caption = std::move(caption);
  }
}

// The kind of the job in a folder, from job.json.
std::string kind_of_job(const fs::path& folder) {
  return core::text_in(core::object_in_file(folder / "job.json"), "kind");
}

std::optional<FolderLook> look_at_run(const fs::path& folder) {
  bool is_run = false;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string kind = kind_of_job(entry.path());
    is_run |= !kind.empty();
    if (kind != "shard") continue;
    FolderLook out{.holds = FolderLook::Holds::run, .folder = entry.path()};
    look_into(out, tars_in(entry.path()));
    if (out.files > 0) return out;
  }
  if (!is_run) return std::nullopt;
  throw Error(KINORA_ERROR_NOT_FOUND, folder.string() +
                                          ": a run without shards; add a job of kind shard to its run file "
                                          "(docs/shard.md), or give the folder of its videos");
}

void open_some(core::Runtime& runtime, const core::InputRows& inputs, FolderLook& look) {
  const core::OneStage probe(runtime, "video.probe", json::object());
  std::vector<std::pair<int64_t, int64_t>> sizes;
  uint64_t bytes = 0;
  double seconds = 0, work = 0;
  const size_t opened = inputs.size() <= kFew ? inputs.size() : kOpened;
  for (size_t i = 0; i < opened; ++i) {
    const core::Input input = inputs[i * inputs.size() / opened];
    try {
      Sample sample("video");
      sample.set("url", input.url);
      const Sample probed = probe(sample);
      const json facts = core::parse_facts(probed.text("json").value_or(""));
      const double length = core::number_in(facts, "duration_s");
      if (!(length > 0)) throw Error(KINORA_ERROR_DATA, "no length");
      const double height = core::number_in(facts, "height"), width = core::number_in(facts, "width");
      sizes.emplace_back(static_cast<int64_t>(height), static_cast<int64_t>(width));
      add_rate(look, core::number_in(facts, "fps"));
      seconds += length;
      work += length * height * width / 1e6;
      bytes += input.size;
      ++look.opened;
    } catch (const Error&) {
      ++look.unreadable;
    }
  }
  if (sizes.empty()) return;
  std::ranges::sort(sizes, {}, [](const auto& size) { return size.first * size.second; });
  std::tie(look.height, look.width) = sizes[sizes.size() / 2];
  const double part = bytes > 0 ? static_cast<double>(bytes) / static_cast<double>(look.bytes) : 1;
  const bool is_whole = look.opened + look.unreadable == look.files;  // a file that is no video has no length
  look.seconds = is_whole ? seconds : seconds / part;
  look.megapixel_seconds = is_whole ? work : work / part;
}

std::string length_text(double seconds) {
  if (seconds < 90) return core::counted(static_cast<int64_t>(std::ceil(seconds)), "second", "seconds");
  if (seconds < 5400) return fmt::format("{:.0f} minutes", seconds / 60);
  return fmt::format("{:.1f} hours", seconds / 3600);
}

}  // namespace

std::string FolderLook::text() const {
  const bool are_videos = holds == Holds::videos;
  if (holds == Holds::model) return "a published model";
  std::string out = fmt::format(
      "{}, {}", core::counted(files, are_videos ? "video" : "shard", are_videos ? "videos" : "shards"),
      core::format_size(bytes));
  if (opened > 0)
    out += fmt::format(", {}{} of video, typically {} x {}", length_text(seconds),
                       opened + unreadable == files ? "" : fmt::format(" (estimated from {})", opened), width,
                       height);
  if (has_many_rates()) out += fmt::format(", {:.4g} to {:.4g} frames per second", slowest, fastest);
  if (unreadable > 0)
    out += fmt::format("; {} of {} that were opened cannot be read", unreadable, opened + unreadable);
  return out;
}

FolderLook look_at(core::Runtime& runtime, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw Error(KINORA_ERROR_INVALID,
                folder.string() +
                    (fs::exists(folder, error)
                         ? ": not a folder; give the folder that it is in, or make it the input of a run file"
                         : ": no such folder"));
  if (fs::exists(folder / "model_index.json", error))
    return {.holds = FolderLook::Holds::model, .folder = folder};
  if (const auto tars = tars_in(folder); !tars.empty()) {
    FolderLook out{.holds = FolderLook::Holds::shards, .folder = folder};
    look_into(out, tars);
    return out;
  }
  if (auto run = look_at_run(kind_of_job(folder).empty() ? folder : folder.parent_path())) return *run;
  FolderLook out{.folder = folder};
  core::LeftOut left_out;
  const auto inputs = core::find_inputs(runtime.io(), {folder.string()}, {.recursive = true}, &left_out);
  out.files = static_cast<int64_t>(inputs->size());
  out.bytes = inputs->bytes();
  if (inputs->usable() == 0)
    throw Error(KINORA_ERROR_NOT_FOUND, folder.string() +
                                            ": no videos, shards (.tar), published model "
                                            "(model_index.json) or run are in it");
  open_some(runtime, *inputs, out);
  if (out.opened == 0)
    throw Error(
        KINORA_ERROR_NOT_FOUND,
        fmt::format("{}: none of the {} opened can be read as a video, such as {}", folder.string(),
                    core::counted(out.unreadable, "file that was", "files that were"), (*inputs)[0].url));
  return out;
}

}  // namespace kinora
