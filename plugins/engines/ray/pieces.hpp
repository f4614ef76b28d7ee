// The large fields and tensors that stay on the nodes: the bridge keeps each by its number, until the last sample that
// has it ends.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/engines/common/remote.hpp"

namespace kinora::ray {

// What a letter says of a field or tensor that is not beside it.
struct Elsewhere {
  uint64_t id = 0;
  const char* list = nullptr;  // of the head's sample: "fields" or "tensors"
  nlohmann::json told;         // its entry there
};

// All functions [any-thread].
class Pieces : public std::enable_shared_from_this<Pieces> {
 public:
  // Gives the sample what is elsewhere: on this node, unless it is known.
  void attach(Sample& sample, std::vector<Elsewhere> parts, size_t node);
  // At most so many numbers of pieces that no sample has any more.
  std::vector<uint64_t> take_freed(size_t most);

 private:
  struct Piece;
  class Kept;
  friend std::vector<Elsewhere> elsewhere(const Sample&);
  void end(uint64_t id);

  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<const Piece>> alive_;
  std::vector<uint64_t> freed_;
};

// What a sample has elsewhere.
std::vector<Elsewhere> elsewhere(const Sample& sample);

// The head's sample without what is elsewhere, which is returned; the head's `pieces` has its numbers, and 0 for what
// is beside. Throws json::exception, std::out_of_range.
std::vector<Elsewhere> take_elsewhere(nlohmann::json& head);
// The opposite.
void put_elsewhere(nlohmann::json& head, std::vector<Elsewhere> parts);

}  // namespace kinora::ray
