// A source of samples as an object: its calls with their statuses and results checked. Errors name the
// component.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/plugin/opening.hpp"
#include "core/runtime/call.hpp"
#include "kinora/abi/source.h"
#include "kinora/sample.hpp"

namespace kinora::core {

// Part `shard` of `shards`, shard from 0.
struct SourcePart {
  uint64_t shard = 0, shards = 1;
};

// [owner-thread]
class SourceInstance {
 public:
  // Opens the data. Throws Error if the component is not a source, cannot be created, or finds no data at `path`.
  SourceInstance(const Component&, const Options&, std::string_view path, const SourcePart& part = {});

  SourceInstance(const SourceInstance&) = delete;
  SourceInstance& operator=(const SourceInstance&) = delete;

  const std::string& id() const { return spec_.id; }
  // The next sample, or nothing after the last. Throws Error: KINORA_ERROR_DATA for what the source has passed
  // over, and the next call continues behind it; after any other error the next call tries again.
  std::optional<Sample> next();
  // The position, for restore() of an instance of the same data and part. At most 64 KiB.
  std::string state() const;
  // Throws Error if the source refuses the state; the position stays.
  void restore(std::string_view state);
  // The number of samples of this part; nothing if the source does not know it without reading.
  std::optional<uint64_t> count() const;
  bool has_at() const { return KINORA_HAS(&api_, at) && api_.at; }
  // [any-thread] If has_at(): sample i of this part, i < count(), in the order of next(). Throws Error:
  // KINORA_ERROR_DATA for a damaged sample.
  Sample at(uint64_t i) const;

 private:
  const ComponentSpec& spec_;
  const kinora_source& api_;
  Instance self_;
  Call call_;
  const kinora_run run_ = run_of(call_);
};

}  // namespace kinora::core
