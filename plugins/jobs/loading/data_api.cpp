// The C API of the order of samples (kinora/data.h).
#include <filesystem>

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/config/document.hpp"
#include "core/embed/embed.hpp"
#include "core/run/call.hpp"
#include "core/run/inputs.hpp"
#include "core/run/stage_chain.hpp"
#include "kinora/data.h"
#include "kinora/sample.hpp"
#include "plugins/jobs/loading/data_order.hpp"

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

// Stages in this thread; what they make of one sample is kept.
class Chain {
 public:
  Chain(Registry& registry, const json& stages) : chain_(registry, stages, to_, run_) {}

  // The first sample that leaves the stages; nothing, and the reason in `why`, if none does.
  std::optional<Sample> operator()(Sample sample, std::string& why) {
    made_.reset();
    why_ = "the stages make nothing of it";
    chain_.process(std::move(sample));
    why = why_;
    return std::exchange(made_, std::nullopt);
  }

 private:
  static Chain& of(void* self) { return *static_cast<Chain*>(self); }

  std::optional<Sample> made_;
  std::string why_;
  kinora_emit to_{.struct_size = sizeof(kinora_emit),
                  .reserved = 0,
                  .self = this,
                  .emit = [](void* self, kinora_sample* s) -> int32_t {
                    Sample sample = Sample::adopt(s);
                    if (!of(self).made_) of(self).made_ = std::move(sample);
                    return KINORA_OK;
                  },
                  .drop = [](void* self, kinora_sample* s, const char* rule, double) -> int32_t {
                    Sample::adopt(s);
                    of(self).why_ = std::string("dropped by ") + (rule ? rule : "a stage");
                    return KINORA_OK;
                  },
                  .hold = nullptr,
                  .stored = nullptr,
                  .fail = [](void* self, kinora_sample* s, const char* reason) -> int32_t {
                    Sample::adopt(s);
                    of(self).why_ = reason ? reason : "failed";
                    return KINORA_OK;
                  },
                  .made_of = nullptr};
  Call call_;
  kinora_run run_ = run_of(call_);
  StageChain chain_;
};

}  // namespace
}  // namespace kinora::core

struct kinora_data {
  kinora_data(kinora::core::Registry& registry, const char* table, const char* stages, uint64_t seed)
      : order(kinora::core::input_of(table), seed) {
    if (!stages) return;
    const auto list = nlohmann::json::parse(stages, nullptr, false);
    if (!list.is_array() || !list.empty()) chain.emplace(registry, list);
  }

  kinora::Sample at(uint64_t slot) {
    std::optional<kinora::Sample> out;
    order.find_usable(slot, [&](const kinora::core::DataOrder::Draw& draw, std::string& why) {
      try {
        out = to_sample(order.set(draw.set).read(draw.place));
        if (chain) out = (*chain)(*std::move(out), why);
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
  std::optional<kinora::core::Chain> chain;
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
