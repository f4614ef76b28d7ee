#include "plugins/jobs/encode/latent_parts.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/io/atomic_file.hpp"
#include "core/base/log.hpp"
#include "core/base/cancel.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Enough parts to divide the work evenly among hundreds of ranks, and few enough for one folder.
constexpr int64_t kParts = 4096;

json read_json(const fs::path& file) {
  std::ifstream in(file);
  return json::parse(in, nullptr, false);
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
    throw Error(KINORA_DATA, file(part, ".json").string() + ": the file is damaged; remove it and run again");
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
      if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
      if (std::ifstream failed(folder_ / "failed"); failed) {
        std::ostringstream why;
        why << failed.rdbuf();
        throw Error(KINORA_FAILED, why.str());
      }
      if (++tenths % 600 == 0)
        log_info("{}: waiting for other ranks: {} of {} of their parts are left", job, parts.size() - i,
                 parts.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

void LatentParts::remove() const { fs::remove_all(folder_); }

}  // namespace kinora::core
