#include "plugins/jobs/loading/data_state.hpp"

#include <nlohmann/json.hpp>

#include "core/io/atomic_file.hpp"
#include "core/io/byte_source.hpp"

namespace kinora::core {
namespace {

constexpr const char* kFormat = "data-state/1";

}  // namespace

void write_data_state(const std::filesystem::path& file, const DataState& state) {
  const nlohmann::json out{{"kinora", kFormat}, {"slots", state.slots}, {"data", state.data}};
  or_throw(write_file_atomically(file, out.dump() + "\n"));
}

DataState read_data_state(const std::filesystem::path& file, const std::string& data) {
  constexpr uint64_t kMost = 65536;
  const auto in = nlohmann::json::parse(or_throw(read_text(file.string(), kMost)), nullptr, false);
  if (!in.is_object() || in.value("kinora", nlohmann::json()) != kFormat || !in.contains("slots") ||
      !in["slots"].is_number_unsigned() || !in.contains("data") || !in["data"].is_string())
    throw Error(KINORA_ERROR_INVALID,
                file.string() + ": not a position in data; give a file that --save-state wrote");
  DataState out{in["slots"], in["data"]};
  if (out.data != data)
    throw Error(
        KINORA_ERROR_INVALID,
        file.string() +
            ": the position is of other data; the sets, their shards, the numbers of their samples, "
            "the shares, "
            "`shuffle`, `part`, `where`, `join` and the run's seed must be those that it was saved with");
  return out;
}

}  // namespace kinora::core
