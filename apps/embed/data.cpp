// The C API of the order of samples (kinora/data.h).
#include "kinora/data.h"

#include <filesystem>

#include <fmt/format.h>

#include "apps/embed/embed.hpp"
#include "core/config/document.hpp"
#include "core/run/inputs.hpp"
#include "kinora/sample.hpp"
#include "plugins/jobs/loading/data_order.hpp"
#include "plugins/jobs/loading/samples_ahead.hpp"
#include "plugins/jobs/loading/transforms.hpp"

namespace kinora::core::embed {
namespace {

DataInput input_of(Registry& registry, const char* table) {
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
      source_reader(document, registry, std::filesystem::current_path(), problems), problems);
  std::string all;
  for (const auto& p : problems) all += (all.empty() ? "data: " : "\ndata: ") + p.message;
  if (!all.empty()) throw Error(KINORA_ERROR_INVALID, all);
  return out;
}

}  // namespace
}  // namespace kinora::core::embed

struct kinora_data {
  kinora_data(kinora::core::Registry& registry, const kinora::core::DataInput& input, const char* stages,
              uint64_t seed)
      : order(input, seed),
        transforms(registry, nlohmann::json::parse(stages ? stages : "[]", nullptr, false), seed,
                   input.reading.trusted),
        ahead(order, input.reading),
        lost("data", input.reading) {
    order.count_unread(lost);
    ahead.follow({.first = 0, .count = 1, .of = 1});
  }

  kinora::Sample at(uint64_t slot) {
    std::optional<kinora::Sample> out;
    const auto use = [&](const kinora::core::DataOrder::Draw& draw, kinora::core::Unused& unused) {
      out = transforms(to_sample(ahead.read(slot, draw)), slot, unused);
      return out.has_value();
    };
    order.find_usable(slot, use, &lost);
    return *std::move(out);
  }

  nlohmann::json stats() const {
    auto out = ahead.counts().to_json();
    out.update(lost.counts());
    return out;
  }

  kinora::core::DataOrder order;
  kinora::core::Transforms transforms;
  kinora::core::SamplesAhead ahead;
  kinora::core::LostSamples lost;
};

extern "C" {

int32_t kinora_data_open(kinora_embed* host, const char* table, const char* stages, uint64_t seed,
                         kinora_data** out) {
  return kinora::guard([&] {
    auto& registry = host->runtime->registry();
    *out = new kinora_data(registry, kinora::core::embed::input_of(registry, table), stages, seed);
  });
}

void kinora_data_close(kinora_data* data) { delete data; }

uint64_t kinora_data_pass(const kinora_data* data) { return data->order.pass(); }

const char* kinora_data_digest(const kinora_data* data) { return data->order.digest().c_str(); }

int32_t kinora_data_follow(kinora_data* data, uint64_t first, uint64_t count, uint64_t of) {
  return kinora::guard([&] {
    if (count > of)
      throw kinora::Error(KINORA_ERROR_INVALID,
                          fmt::format("data: {} slots of every {} cannot be taken", count, of));
    data->ahead.follow({.first = first, .count = count, .of = of});
  });
}

int32_t kinora_data_at(kinora_data* data, uint64_t slot, kinora_sample** out) {
  return kinora::guard([&] { *out = data->at(slot).release(); });
}

int32_t kinora_data_stats(const kinora_data* data, const kinora_sink* to) {
  return kinora::guard([&] { kinora::core::embed::write(data->stats(), *to); });
}

}  // extern "C"
