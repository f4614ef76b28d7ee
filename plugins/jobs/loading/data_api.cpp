// The C API of the order of samples (kinora/data.h).
#include <filesystem>

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/config/document.hpp"
#include "core/embed/embed.hpp"
#include "core/run/inputs.hpp"
#include "kinora/data.h"
#include "kinora/sample.hpp"
#include "plugins/jobs/loading/data_order.hpp"
#include "plugins/jobs/loading/transforms.hpp"

namespace kinora::core {
namespace {

DataInput input_of(const char* table) {
  const Document document =
      or_throw(Document::parse(std::string("input = ") + (table ? table : "") + "\n", "data"));
  std::vector<Diagnostic> problems;
  const auto given = document.root().at("input");
  if (!given.is_object())
    throw Error(KINORA_ERROR_INVALID,
                "data: expected a table such as { path = \"shards/\", shuffle = 1000 }");
  DataInput out = read_data(
      document, "/input", given,
      [](const Location&, const std::string& path) {
        return is_uri(path) ? path : std::filesystem::absolute(path).lexically_normal().string();
      },
      problems);
  std::string all;
  for (const auto& p : problems) all += (all.empty() ? "data: " : "\ndata: ") + p.message;
  if (!all.empty()) throw Error(KINORA_ERROR_INVALID, all);
  return out;
}

}  // namespace
}  // namespace kinora::core

struct kinora_data {
  kinora_data(kinora::core::Registry& registry, const char* table, const char* stages, uint64_t seed)
      : order(kinora::core::input_of(table), seed),
        transforms(registry, nlohmann::json::parse(stages ? stages : "[]", nullptr, false), seed) {}

  kinora::Sample at(uint64_t slot) {
    std::optional<kinora::Sample> out;
    order.find_usable(slot, [&](const kinora::core::DataOrder::Draw& draw, std::string& why) {
      try {
        out = transforms(to_sample(order.set(draw.set).read(draw.place)), slot, why);
      } catch (const kinora::Error& e) {
        if (e.code() != KINORA_ERROR_DATA) throw;
        out.reset();
        why = e.what();
      }
      if (!out) kinora::core::log_warn("{} is left out: {}", order.text_of(draw), why);
      return out.has_value();
    });
    return *std::move(out);
  }

  kinora::core::DataOrder order;
  kinora::core::Transforms transforms;
};

extern "C" {

int32_t kinora_data_open(kinora_embed* host, const char* table, const char* stages, uint64_t seed,
                         kinora_data** out) {
  return kinora::guard(
      [&] { *out = new kinora_data(kinora::core::runtime_of(*host).registry(), table, stages, seed); });
}

void kinora_data_close(kinora_data* data) { delete data; }

uint64_t kinora_data_pass(const kinora_data* data) { return data->order.pass(); }

const char* kinora_data_digest(const kinora_data* data) { return data->order.digest().c_str(); }

int32_t kinora_data_at(kinora_data* data, uint64_t slot, kinora_sample** out) {
  return kinora::guard([&] { *out = data->at(slot).release(); });
}

}  // extern "C"
