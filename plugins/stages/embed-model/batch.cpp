#include "batch.hpp"

#include <utility>

namespace kinora::exported {

void Batch::add(Sample sample, at::Tensor input, const Emit& emit) {
  samples_.push_back(std::move(sample));
  inputs_.push_back(std::move(input));
  if (samples_.size() < size_)
    emit.hold();
  else
    flush(emit);
}

void Batch::flush(const Emit& emit) {
  if (samples_.empty()) return;
  at::Tensor out;
  try {
    out = call_(inputs_);
  } catch (const Error& e) {
    if (!std::exchange(said_, true))
      log(Log::warn, "a batch of " + std::to_string(inputs_.size()) + " failed (" + e.what() +
                         "); its samples are tried one by one, as after every failed batch; if all fail, lower batch");
    return one_by_one(emit);
  }
  inputs_.clear();
  const auto samples = std::exchange(samples_, {});
  for (size_t i = 0; i < samples.size(); ++i) {
    try {
      done_(samples[i], out[static_cast<int64_t>(i)], emit);
    } catch (const Error& e) {
      if (e.code() == KINORA_CANCELLED) throw;
      emit.fail(samples[i], e.what());
    }
  }
}

void Batch::one_by_one(const Emit& emit) {
  const auto samples = std::exchange(samples_, {});
  const auto inputs = std::exchange(inputs_, {});
  for (size_t i = 0; i < samples.size(); ++i) {
    try {
      done_(samples[i], call_({inputs[i]})[0], emit);
    } catch (const Error& e) {
      if (e.code() == KINORA_CANCELLED) throw;
      emit.fail(samples[i], e.what());
    }
  }
}

}  // namespace kinora::exported
