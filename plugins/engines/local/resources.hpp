// What a run may use: the cores, GPUs and memory of the machine that running tasks take (Machine), and the
// bytes that all samples inside the engine keep alive (Ledger). Guarded by the run's mutex (runner.hpp).
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::local {

// Resources that tasks take while they run. A task that needs more than the total runs alone.
struct Tokens {
  double cores = 0, gpus = 0;
  uint64_t memory = 0;
  double nvdec = 0, nvenc = 0;  // hardware decoders and encoders, of all devices together
};

class Machine {
 public:
  explicit Machine(const Tokens& total);
  // wait: only cores are missing, so nothing upstream starts before this task.
  enum class Answer { yes, no, wait };
  Answer has(const Tokens& need) const;
  // Whether each of the devices has `share` of itself left.
  bool has(std::span<const size_t> devices, double share) const;
  void take(const Tokens& need, std::span<const size_t> devices, double share);
  void give(const Tokens& need, std::span<const size_t> devices, double share);

 private:
  const Tokens total_;
  Tokens used_;
  std::vector<double> devices_;  // used part of each GPU
};

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

}  // namespace kinora::local
