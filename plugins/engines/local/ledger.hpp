// Counts the bytes that all samples inside the engine keep alive, shared ones once.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::local {

// A sample's bytes. Byte fields are immutable and shared between clones (a film's bytes by all its clips), so
// each is known by its address; what is left, tensors above all, is the sample's own.
struct Weight {
  using Block = std::pair<const void*, uint64_t>;
  std::vector<Block> shared;
  uint64_t own = 0;
};

// By the thread that owns the sample at the time.
Weight weigh(const Sample& sample);

class Ledger {
 public:
  void add(const Weight& weight);
  void remove(const Weight& weight);
  // What used() would be with `in` added, and with `out` (may be null) removed.
  uint64_t after(const Weight& in, const Weight* out);
  uint64_t used() const { return used_; }
  uint64_t peak() const { return peak_; }

 private:
  void count(const Weight& weight);
  std::map<Weight::Block, uint32_t> blocks_;
  uint64_t used_ = 0, peak_ = 0;
};

}  // namespace kinora::local
