// The cores, GPUs and memory of the machine that running tasks take. Guarded by the run's mutex (runner.hpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kinora::engines {

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

}  // namespace kinora::engines
