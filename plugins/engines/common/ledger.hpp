// The bytes that all samples inside the engine keep alive. Guarded by the run's mutex (runner.hpp).
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::engines {

// A sample's bytes. Byte fields are immutable and shared between clones (a source video's bytes by all its
// clips), so each is identified by its address; the rest, mainly tensors, belongs to the sample alone.
struct Weight {
  using Block = std::pair<const void*, uint64_t>;
  std::vector<Block> shared;
  uint64_t own = 0;
};

// Called by the thread that owns the sample at the time.
Weight weigh(const Sample& sample);

// A sum of weights in which each shared block counts once.
class ByteSum {
 public:
  void add(const Weight& weight);
  void remove(const Weight& weight);
  // The value of now() after adding `in` and removing `out` (may be null).
  uint64_t after(const Weight& in, const Weight* out);
  uint64_t now() const { return now_; }
  uint64_t peak() const { return peak_; }

 private:
  void count(const Weight& weight);
  std::map<Weight::Block, uint32_t> blocks_;
  uint64_t now_ = 0, peak_ = 0;
};

// The bytes of all samples inside the engine, against the run's bound; shared bytes count once.
class Ledger {
 public:
  explicit Ledger(uint64_t bound) : bound_(bound) {}
  uint64_t bound() const { return bound_; }  // 0: none
  ByteSum& samples() { return samples_; }
  // Held inputs of stages in this process that no longer count against the bound.
  ByteSum& beside() { return beside_; }
  const ByteSum& samples() const { return samples_; }
  const ByteSum& beside() const { return beside_; }

  // Bytes that running tasks are expected to add.
  void reserve(uint64_t bytes) { reserved_ += bytes; }
  void release(uint64_t bytes) { reserved_ -= bytes; }
  bool has_room(uint64_t more) const { return bound_ == 0 || samples_.now() + reserved_ + more <= bound_; }
  // Whether `in` has room once `out` (may be null) has left.
  bool has_room(const Weight& in, const Weight* out) {
    return bound_ == 0 || samples_.after(in, out) + reserved_ <= bound_;
  }

 private:
  const uint64_t bound_;
  ByteSum samples_, beside_;
  uint64_t reserved_ = 0;
};

}  // namespace kinora::engines
