// Bounds what a server keeps in its folder, and for how long.
#include <set>

#include <fmt/format.h>

#include "apps/serve/videos_model.hpp"
#include "core/base/log.hpp"

namespace kinora::serve {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLongestLog = 8 << 20;  // bytes of a log of a model

// Processes append to the file, so that they go on at the new end; at most a line between the two is lost.
void bound_log(const fs::path& log) {
  std::error_code ignored;
  const auto bytes = fs::file_size(log, ignored);
  if (ignored || bytes <= kLongestLog) return;
  fs::copy_file(log, log.string() + ".old", fs::copy_options::overwrite_existing, ignored);
  fs::resize_file(log, 0, ignored);
}

}  // namespace

// Bounds the logs of the models' processes: their output, the run's own log, and the output of each rank.
void Videos::bound_logs() const {
  for (const auto& one : settings_.models) {
    const fs::path folder = log_of(one.name).parent_path();
    bound_log(folder / "process.log");
    bound_log(folder / "kinora.log");
    for (int64_t rank = 0; one.ranks > 1 && rank < one.ranks; ++rank)
      bound_log(folder / "ranks" / fmt::format("rank-{}.log", rank));
  }
}

// Removes folders that belong to no video of the store, as an end at a bad moment leaves them.
void Videos::clean_up() const {
  std::set<std::string> known;
  for (auto& id : store_.ids()) known.insert(id);
  fs::remove_all(settings_.folder / "live");
  for (const auto& entry : fs::directory_iterator(settings_.folder / "videos"))
    if (!known.contains(entry.path().filename().string())) fs::remove_all(entry.path());
}

void Videos::drop_expired() {
  std::string problem;
  for (const auto& id : store_.expired(now())) try {
      forget(id);
    } catch (const std::exception& e) {  // the next one may make room
      problem = e.what();
    }
  if (!problem.empty()) complain("expired videos are still in the list: " + problem);
}

// A full disk takes no change of the list before the files are gone.
void Videos::forget(const std::string& id) {
  std::error_code ignored;
  try {
    store_.remove(id);
    fs::remove_all(folder_of(id), ignored);
  } catch (const Error&) {
    fs::remove_all(folder_of(id), ignored);
    store_.remove(id);
  }
}

}  // namespace kinora::serve
