// The cores, GPUs and memory of the machines (nodes) that running tasks take. Guarded by the run's mutex (runner.hpp).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kinora::engines {

// Resources that tasks take while they run. A task that needs more than a node's total runs alone.
struct Tokens {
  double cores = 0, gpus = 0;
  uint64_t memory = 0;
  double nvdec = 0, nvenc = 0;  // hardware decoders and encoders, of all devices together
  std::string name{};           // of a node: as figures call it
  uint64_t samples = 0;         // bytes of samples that the node itself keeps; 0: they are in this process
};

class Machine {
 public:
  explicit Machine(const std::vector<Tokens>& nodes) {
    for (const Tokens& node : nodes) add(node);
  }
  // wait: only cores are missing, so nothing upstream starts there before this task (hold).
  enum class Answer { yes, no, wait };
  Answer has(size_t node, const Tokens& need) const;
  // The same if the node is not held.
  Answer could(size_t node, const Tokens& need) const;
  // The node has room for nothing until release(). Returns whether that is so of all nodes.
  bool hold(size_t node);
  void release();
  // Whether each of the node's devices has `share` of itself left.
  bool has(size_t node, std::span<const size_t> devices, double share) const;
  void take(size_t node, const Tokens& need, std::span<const size_t> devices, double share);
  void give(size_t node, const Tokens& need, std::span<const size_t> devices, double share);

  size_t nodes() const { return nodes_.size(); }
  size_t nodes_left() const { return left_; }
  void add(const Tokens& node);
  // The node has gone. What was taken there is still given back.
  void lose(size_t node);
  // The node has so many cores less than it seemed, but these at least.
  void correct(size_t node, double cores, double least) {
    double& has = nodes_[node].total.cores;
    has = std::min(has, std::max(least, has - cores));
  }
  // What the nodes that are left have together.
  Tokens total() const;
  // What each node has: those that were lost nothing.
  std::vector<Tokens> left() const;
  bool has_cores(size_t node, double cores) const;
  double free_cores(size_t node) const { return nodes_[node].total.cores - nodes_[node].used.cores; }
  bool has_lost(size_t node) const { return nodes_[node].lost; }
  const Tokens& of(size_t node) const { return nodes_[node].total; }
  const Tokens& used(size_t node) const { return nodes_[node].used; }
  // Of the nodes that are left and have these devices, the one with most free cores; nullopt if there is none.
  std::optional<size_t> freest(std::span<const size_t> devices) const;

 private:
  struct Node {
    Tokens total, used;
    std::vector<double> devices;  // used part of each GPU
    bool lost = false, held = false;
  };
  std::vector<Node> nodes_;
  std::vector<size_t> held_;
  size_t left_ = 0;  // nodes that were not lost
};

}  // namespace kinora::engines
