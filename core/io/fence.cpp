#include "core/io/fence.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

struct Fenced {
  fs::path folder;
  std::function<Status()> check;
};

// The fences of the process, since files are written by code that knows no run.
std::mutex mutex;
std::vector<std::shared_ptr<const Fenced>> all;  // guarded by mutex

fs::path plain(const fs::path& path) {
  fs::path out = fs::absolute(path).lexically_normal();
  return out.has_filename() ? out : out.parent_path();
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

Fence::Fence(const fs::path& folder, std::function<Status()> check) {
  auto made = std::make_shared<const Fenced>(Fenced{plain(folder), std::move(check)});
  id_ = made.get();
  const std::scoped_lock lock(mutex);
  all.push_back(std::move(made));
}

Fence::~Fence() {
  const std::scoped_lock lock(mutex);
  std::erase_if(all, [&](const auto& one) { return one.get() == id_; });
}

Status may_publish(const fs::path& path) {
  std::vector<std::shared_ptr<const Fenced>> now;
  {
    const std::scoped_lock lock(mutex);
    if (all.empty()) return {};
    now = all;
  }
  const fs::path name = plain(path);
  for (const auto& one : now)
    if (is_below(name, one->folder))
      if (auto status = one->check(); !status) return status;
  return {};
}

}  // namespace kinora::core
