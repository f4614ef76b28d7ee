#include "core/run/job_edits.hpp"

#include <algorithm>
#include <array>

#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/base/regular_file.hpp"
#include "core/io/atomic_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kEdits{"edits.jsonl", "views.jsonl"};

Result<std::string> read_edits(const fs::path& folder, std::string_view name) {
  return read_regular_file(folder / name, uint64_t{1} << 32);  // bytes
}

void write_edits(const fs::path& folder, std::string_view name, const std::string& text) {
  or_throw(write_file_atomically(folder / name, text));
}

}  // namespace

bool is_edits(std::string_view name) { return std::ranges::find(kEdits, name) != kEdits.end(); }

int64_t edits_in(const fs::path& folder) {
  const auto edits = read_edits(folder, kEdits[0]);
  return edits ? std::ranges::count(*edits, '\n') : 0;
}

void copy_edits(const fs::path& from, const fs::path& to) {
  for (const auto name : kEdits) {
    const auto text = read_edits(from, name);
    if (text)
      write_edits(to, name, *text);
    else if (!fs::exists(from / name))
      fs::remove(to / name);
    else
      throw Error(text.failure().code, text.failure().message);
  }
}

void find_edits(const std::string& job, const fs::path& folder, const std::vector<fs::path>& aside) {
  for (const auto name : kEdits) {
    const auto time = [&](const fs::path& one) {
      std::error_code error;
      const auto at = fs::last_write_time(one / name, error);
      return error ? fs::file_time_type::min() : at;
    };
    const fs::path& from = *std::ranges::max_element(aside, {}, time);
    const auto text = read_edits(from, name);
    if (!text) continue;
    write_edits(folder, name, *text);
    log_info("{}: {} of {} taken from {}, because {} had none yet", job,
             counted(std::ranges::count(*text, '\n'), "line", "lines"), name, from.string(), folder.string());
  }
}

}  // namespace kinora::core
