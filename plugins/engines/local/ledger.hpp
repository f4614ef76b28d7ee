// Counts the bytes that all samples inside the engine keep alive; shared bytes count once.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::local {

// A sample's bytes. Byte fields are immutable and shared between clones (a source video's bytes by all its clips), so
// each is identified by its address; the rest, mainly tensors, belongs to the sample alone.
struct Weight {
  using Block = std::pair<const void*, uint64_t>;
  std::vector<Block> shared;
  uint64_t own = 0;
};

// Called by the thread that owns the sample at the time.
Weight weigh(const Sample& sample);

class Ledger {
 public:
  void add(const Weight& weight);
  void remove(const Weight& weight);
  // The value of used() after adding `in` and removing `out` (may be null).
  uint64_t after(const Weight& in, const Weight* out);
  uint64_t used() const { return used_; }
  uint64_t peak() const { return peak_; }

 private:
  void count(const Weight& weight);
  std::map<Weight::Block, uint32_t> blocks_;
  uint64_t used_ = 0, peak_ = 0;
};

}  // namespace kinora::local
