#include "core/run/source_instance.hpp"

#include "core/plugin/host.hpp"

namespace kinora::core {
namespace {

// The bytes that a source writes as its state. Bytes beyond the most that a state may have are only counted.
struct StateBytes {
  std::string bytes;
  uint64_t size = 0;
  kinora_sink sink() {
    return {this, [](void* self, const void* data, uint64_t size) {
              auto& to = *static_cast<StateBytes*>(self);
              to.size += size;
              if (to.size <= KINORA_SOURCE_MOST_STATE) to.bytes.append(static_cast<const char*>(data), size);
            }};
  }
};

}  // namespace

SourceInstance::SourceInstance(const Component& c, const Options& o, std::string_view path,
                               const SourcePart& part)
    : spec_(*c.spec), api_(c.table<kinora_source>()), self_(instance_of<kinora_source>(c, o)) {
  if (part.shard >= part.shards)
    throw Error(KINORA_ERROR_INVALID, fmt::format("{}: there is no part {} of {}; parts count from 0", id(),
                                                  part.shard, part.shards));
  called(api_.open(self_.get(), str(path), part.shard, part.shards, &run_), id());
}

std::optional<Sample> SourceInstance::next() {
  kinora_sample* sample = nullptr;
  const int32_t status = api_.next(self_.get(), &run_, &sample);
  if (status == KINORA_SIGNAL_END) return forget_error(), std::nullopt;
  called(status, id());
  if (!sample) throw Error(KINORA_ERROR_FAILED, id() + ": next returned no sample");
  return Sample::adopt(sample);
}

std::string SourceInstance::state() const {
  StateBytes state;
  const kinora_sink sink = state.sink();
  called(api_.state(self_.get(), &sink), id());
  if (state.size > KINORA_SOURCE_MOST_STATE)
    throw Error(KINORA_ERROR_FAILED, fmt::format("{}: its state has {} bytes, at most {} are allowed", id(),
                                                 state.size, KINORA_SOURCE_MOST_STATE));
  return std::move(state.bytes);
}

void SourceInstance::restore(std::string_view state) {
  called(api_.restore(self_.get(), {state.data(), state.size()}), id());
}

std::optional<uint64_t> SourceInstance::count() const {
  if (!api_.count) return std::nullopt;
  uint64_t samples = 0;
  const int32_t status = api_.count(self_.get(), &samples);
  if (status == KINORA_ERROR_UNSUPPORTED) return forget_error(), std::nullopt;
  called(status, id());
  return samples;
}

Sample SourceInstance::at(uint64_t i) const {
  kinora_sample* sample = nullptr;
  called(api_.at(self_.get(), i, &run_, &sample), id());
  if (!sample) throw Error(KINORA_ERROR_FAILED, id() + ": at returned no sample");
  return Sample::adopt(sample);
}

}  // namespace kinora::core
