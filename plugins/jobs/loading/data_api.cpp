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
#include "plugins/jobs/loading/samples_ahead.hpp"

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

  // The first sample that leaves the stages; nothing, and the reason, if none does.
  struct Outcome {
    std::optional<Sample> made;
    std::string why;
    bool is_failed;  // rather than dropped
  };
  Outcome operator()(Sample sample) {
    outcome_ = {std::nullopt, "the stages make nothing of it", false};
    chain_.process(std::move(sample));
    return std::move(outcome_);
  }

 private:
  static Outcome& of(void* self) { return static_cast<Chain*>(self)->outcome_; }

  Outcome outcome_;
  kinora_emit to_{.struct_size = sizeof(kinora_emit),
                  .reserved = 0,
                  .self = this,
                  .emit = [](void* self, kinora_sample* s) -> int32_t {
                    Sample sample = Sample::adopt(s);
                    if (!of(self).made) of(self).made = std::move(sample);
                    return KINORA_OK;
                  },
                  .drop = [](void* self, kinora_sample* s, const char* rule, double) -> int32_t {
                    Sample::adopt(s);
                    of(self).why = std::string("dropped by ") + (rule ? rule : "a stage");
                    return KINORA_OK;
                  },
                  .hold = nullptr,
                  .stored = nullptr,
                  .fail = [](void* self, kinora_sample* s, const char* reason) -> int32_t {
                    Sample::adopt(s);
                    of(self).why = reason ? reason : "failed";
                    of(self).is_failed = true;
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
  kinora_data(kinora::core::Registry& registry, const kinora::core::DataInput& input, const char* stages,
              uint64_t seed)
      : order(input, seed), ahead(order, input.reading), failed("data", input.reading) {
    ahead.follow({.first = 0, .count = 1, .of = 1});
    if (!stages) return;
    const auto list = nlohmann::json::parse(stages, nullptr, false);
    if (!list.is_array() || !list.empty()) chain.emplace(registry, list);
  }

  kinora::Sample at(uint64_t slot) {
    std::optional<kinora::Sample> out;
    const auto use = [&](const kinora::core::DataOrder::Draw& draw, std::string& why) {
      auto sample = to_sample(ahead.read(slot, draw));
      if (!chain) {
        out = std::move(sample);
        return true;
      }
      auto outcome = (*chain)(std::move(sample));
      out = std::move(outcome.made);
      if (out) return true;
      if (outcome.is_failed)
        why = outcome.why;
      else
        kinora::core::log_warn("data: {} is left out: {}", order.text_of(draw), outcome.why);
      return false;
    };
    order.find_usable(slot, use, &failed);
    return *std::move(out);
  }

  std::string stats() const {
    auto out = ahead.counts().to_json();
    out["failed"] = failed.count();
    return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  kinora::core::DataOrder order;
  kinora::core::SamplesAhead ahead;
  kinora::core::FailedSamples failed;
  std::optional<kinora::core::Chain> chain;
};

extern "C" {

int32_t kinora_data_open(kinora_embed* host, const char* table, const char* stages, uint64_t seed,
                         kinora_data** out) {
  return kinora::guard([&] {
    *out = new kinora_data(kinora::core::runtime_of(*host).registry(), kinora::core::input_of(table), stages,
                           seed);
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
  return kinora::guard([&] {
    const std::string text = data->stats();
    to->write(to->self, text.data(), text.size());
  });
}

}  // extern "C"
