// One shard of a set, of any format.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "kinora/webdataset.hpp"

namespace kinora::core {

// [any-thread] Numbers of samples are below size(). Functions throw Error, KINORA_ERROR_DATA for a damaged sample.
class SampleShard {
 public:
  virtual ~SampleShard() = default;
  virtual uint64_t size() const = 0;
  virtual WebDatasetSample at(uint64_t i) const = 0;
  // The byte of its file at which a sample begins.
  virtual uint64_t offset(uint64_t i) const = 0;
  // The number of bytes that at() reads.
  virtual uint64_t bytes(uint64_t i) const = 0;
  // The key alone, without reading contents.
  virtual std::string key(uint64_t i) const = 0;
  // The facts alone: the field json; not an object if there are none. Text that is not JSON is damage.
  virtual nlohmann::json facts(uint64_t i) const = 0;
};

}  // namespace kinora::core
