// The bytes that all samples inside the engine keep alive. Guarded by the run's mutex (runner.hpp).
//
// They are counted where they are: at place 0, in this process, or at place n + 1, on node n of a cluster whose nodes
// keep samples.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::engines {

// A sample's bytes. Byte fields are immutable and shared between clones (a source video's bytes by all its
// clips), so each is identified by its address; pieces on nodes by their number; the rest, mainly tensors, belongs to
// the sample alone, and is here.
struct Weight {
  struct Block {
    uint64_t id = 0, bytes = 0;
    size_t place = 0;
    auto operator<=>(const Block&) const = default;
  };
  std::vector<Block> shared;
  uint64_t own = 0;
};

// Called by the thread that owns the sample at the time.
Weight weigh(const Sample& sample);
// What a call on `place` has of these samples in addition while it lasts: copies of what is elsewhere.
void add_copies(const Weight& of, size_t place, Weight& to);
// The bytes of it that are at this place, without its own.
uint64_t bytes_at(const Weight& weight, size_t place);

// A sum of weights in which each shared block counts once.
class ByteSum {
 public:
  void add(const Weight& weight);
  void remove(const Weight& weight);
  // The values of by_place() after adding `in` and removing `out` (may be null).
  std::vector<uint64_t> after(const Weight& in, const Weight* out);
  const std::vector<uint64_t>& by_place() const { return now_; }
  uint64_t now(size_t place) const { return place < now_.size() ? now_[place] : 0; }
  uint64_t peak(size_t place) const { return place < peak_.size() ? peak_[place] : 0; }
  // Of the place that has most.
  uint64_t now() const { return *std::max_element(now_.begin(), now_.end()); }
  uint64_t peak() const { return *std::max_element(peak_.begin(), peak_.end()); }

 private:
  void count(const Weight& weight);
  std::map<Weight::Block, uint32_t> blocks_;
  std::vector<uint64_t> now_{0}, peak_{0};
};

// Bytes that a running task is expected to add at a place.
struct Reserve {
  size_t place = 0;
  uint64_t bytes = 0;
};

// The bytes of all samples inside the engine, against the bound of each place; shared bytes count once.
class Ledger {
 public:
  explicit Ledger(uint64_t bound) : bounds_{bound}, reserved_{0} {}
  // room: bytes of samples that the next node can keep; 0: it keeps none, and neither do the others.
  void add_node(uint64_t room);
  // Where the samples are that a stage on this node makes.
  size_t place_of(size_t node) const { return node + 1 < bounds_.size() ? node + 1 : 0; }
  size_t places() const { return bounds_.size(); }
  uint64_t bound(size_t place = 0) const { return bounds_[place]; }  // 0: none
  ByteSum& samples() { return samples_; }
  // Held inputs of stages in this process that no longer count against the bound.
  ByteSum& beside() { return beside_; }
  const ByteSum& samples() const { return samples_; }
  const ByteSum& beside() const { return beside_; }

  void reserve(const Reserve& more) { reserved_[more.place] += more.bytes; }
  void release(const Reserve& more) { reserved_[more.place] -= more.bytes; }
  bool has_room(size_t place, uint64_t more) const {
    return bounds_[place] == 0 || samples_.now(place) + reserved_[place] + more <= bounds_[place];
  }
  // Whether `in` has room once `out` (may be null) has left.
  bool has_room(const Weight& in, const Weight* out);
  // Whether more than its bound is at this place.
  bool is_over(size_t place) const { return bounds_[place] > 0 && samples_.now(place) > bounds_[place]; }
  bool is_over() const;
  // Whether `in` adds more than facts where more than the bound is, once `out` (may be null) has left.
  bool adds_much(const Weight& in, const Weight* out);

 private:
  std::vector<uint64_t> bounds_, reserved_;
  ByteSum samples_, beside_;
};

}  // namespace kinora::engines
