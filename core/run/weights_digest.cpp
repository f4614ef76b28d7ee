#include "core/run/weights_digest.hpp"

#include <fstream>

#include <nlohmann/json.hpp>

#include "core/base/facts.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/safetensors.hpp"
#include "core/base/log.hpp"
#include "core/run/apply_published.hpp"
#include "core/base/digest.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A damaged file, or one of another form, counts as missing and is rewritten.
json read_kept(const fs::path& file) { return object_in_file(file); }

std::string digest_of(const fs::path& file, const fs::path& kept) {
  const fs::path path = fs::weakly_canonical(file);
  const json state{{"bytes", fs::file_size(path)},
                   {"changed", fs::last_write_time(path).time_since_epoch().count()}};
  json all = read_kept(kept);
  if (const auto it = all.find(path.string());
      it != all.end() && it->is_object() && it->value("state", json()) == state)
    if (const auto digest = it->value("sha256", json()); digest.is_string()) return digest;
  if (state["bytes"] > 1'000'000'000) log_info("{}: computing its digest, once", path.string());
  const std::string digest = sha256_of_file(path);
  all[path.string()] = {{"state", state}, {"sha256", digest}};
  if (const auto status = write_file_atomically(kept, all.dump(1) + "\n"); !status)
    log_warn("{}", status.failure().message);
  return digest;
}

}  // namespace

std::vector<fs::path> weights_files(const std::vector<fs::path>& given, const ComponentSpec& component) {
  std::vector<fs::path> out;
  for (const auto& path : given) {
    auto files = archives_of(path);
    if (files.empty()) files = or_throw(Safetensors::open(published_part(path, component))).files();
    out.insert(out.end(), files.begin(), files.end());
  }
  return out;
}

std::string weights_digest(const std::vector<fs::path>& files, const fs::path& kept) {
  if (files.size() == 1) return "sha256:" + digest_of(files[0], kept);
  std::string lines;
  for (const auto& file : files) lines += digest_of(file, kept) + "  " + file.filename().string() + "\n";
  return "sha256:" + sha256(lines);
}

}  // namespace kinora::core
